// Where the entries of an index tensor point to: checked once, then plain offsets for gathering and scattering.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "anfora/tensor.h"
#include "kernels/kernel.h"

namespace anfora::kernels {

// For every entry of `indices`, which has the rank of `shape`: the offset of the element of a dense tensor of `shape`
// that has the entry's own coordinates, but the entry's value along `axis` (GatherElements, ScatterElements).
std::span<int64_t> element_offsets(KernelContext& context, std::span<const int64_t> shape, const Tensor& indices, int axis);

// For every tuple along the last axis of `indices`: the offset of the slice of a dense tensor of `shape` that the tuple
// selects, within the batch given by the tuple's first `batch_dims` coordinates (GatherND, ScatterND).
std::span<int64_t> tuple_offsets(KernelContext& context, std::span<const int64_t> shape, const Tensor& indices, int batch_dims);

}  // namespace anfora::kernels
