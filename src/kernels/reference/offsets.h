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
class ElementOffsets {
 public:
  ElementOffsets(std::span<const int64_t> shape, const Tensor& indices, int axis);

  // Along the last axis of the indices.
  int64_t rows() const { return row_ == 0 ? 0 : indices_.size() / row_; }
  int64_t row() const { return row_; }
  // Of the entries of one row. Refuses an index that is out of range.
  void of_row(int64_t row, int64_t* to) const;

 private:
  const Tensor& indices_;
  Shape strides_;  // that along the axis is 0, as an entry's own coordinate does not count
  int64_t size_ = 0, stride_ = 0, row_ = 0;
};
// All of them.
std::span<int64_t> element_offsets(KernelContext& context, const ElementOffsets& offsets);

// For every tuple along the last axis of `indices`: the offset of the slice of a dense tensor of `shape` that the tuple
// selects, within the batch given by the tuple's first `batch_dims` coordinates (GatherND, ScatterND).
std::span<int64_t> tuple_offsets(KernelContext& context, std::span<const int64_t> shape, const Tensor& indices, int batch_dims);

}  // namespace anfora::kernels
