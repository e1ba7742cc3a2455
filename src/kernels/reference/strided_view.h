#pragma once

#include <optional>
#include <span>

#include "anfora/tensor.h"

namespace anfora::kernels {

// The elements of a dense tensor in another order and under another shape: what Transpose, Slice and Reshape make of it, before anything is
// moved. Bad arguments are refused as kernels do.
struct StridedView {
  Shape shape, strides;  // in elements; negative: backwards
  int64_t offset = 0;    // of the first one

  static StridedView dense(std::span<const int64_t> shape);
  bool is_dense() const;

  // The same elements where the rows of the tensor, each of `length`, lie `distance` apart.
  void spread_rows(int64_t length, int64_t distance);

  // Axis i is axis perm[i]; without `perm` the axes are reversed.
  StridedView permuted(std::optional<std::span<const int64_t>> perm) const;
  // As ONNX's Slice has it; each list but `starts` and `ends` may be null.
  StridedView sliced(const Tensor& starts, const Tensor& ends, const Tensor* axes, const Tensor* steps) const;
  // Nothing where no strides say it: the axes that become one do not lie one inside the other.
  std::optional<StridedView> reshaped(std::span<const int64_t> to) const;

  // Writes `count` elements from number `begin` on, by the order of the view, one after the other; `from` is the dense tensor's first.
  void copy(DType dtype, const void* from, int64_t begin, int64_t count, void* to) const;
};

// What ONNX's Reshape makes of a shape: 0 copies a dimension unless `zero_is_zero`, and one may be -1, which is what is left.
Shape reshaped_to(std::span<const int64_t> shape, std::span<const int64_t> wanted, bool zero_is_zero);

}  // namespace anfora::kernels
