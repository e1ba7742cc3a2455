#pragma once

#include <span>

#include "anfora/tensor.h"

namespace anfora::kernels {

struct StridedAxis {
  int64_t extent, stride;  // in elements
};

// Columns of a matrix in panels of `width`, as products read them: [panel][steps…][width]. Columns behind the last are 0.
void pack_panels(DType dtype, StridedAxis columns, std::span<const StridedAxis> steps, int64_t width, const void* matrix, void* panels);
// The same of weights whose rows, along their first axis, are the columns; part by part, as they may be computed for it.
void pack_rows(const Tensor& weights, std::span<const StridedAxis> steps, int64_t width, Tensor& panels);
// The matrix again, whose strides are positive.
void unpack_panels(DType dtype, StridedAxis columns, std::span<const StridedAxis> steps, int64_t width, const void* panels, void* matrix);

}  // namespace anfora::kernels
