// Moving elements: copies between differently strided arrangements, fills, and copies through index tables. They
// know elements by their size only, and use all threads when there is enough to move.
#pragma once

#include <span>
#include <vector>

#include "anfora/tensor.h"
#include "kernels/kernel.h"
#include "kernels/reference/strided_view.h"

namespace anfora::kernels {

// to[i · to_strides] = from[i · from_strides] for every index i of `shape`. Strides are in elements. Those of `to` must
// be positive and make no two indices meet; those of `from` may be zero (broadcast) or negative (reversal).
// `to` is best given in descending strides, as a dense tensor has them.
void strided_copy(DType dtype, std::span<const int64_t> shape, void* to, std::span<const int64_t> to_strides,
                  const void* from, std::span<const int64_t> from_strides);

// The strides of the elements of `rows`, seen as of a shape of which some last axes are a row.
template <class T>
Shape strides_of(const RowsOf<T>& rows, std::span<const int64_t> shape) {
  StridedView view = StridedView::dense(shape);
  if (rows.are_apart()) view.spread_rows(rows.length(), rows.stride);
  return std::move(view.strides);
}

// `count` elements in a row.
void dense_copy(DType dtype, int64_t count, void* to, const void* from);
// `count` times the element at `value`.
void dense_fill(DType dtype, int64_t count, void* to, const void* value);

// The address of element `index` of an array.
inline void* element_at(DType dtype, void* data, int64_t index) {
  return static_cast<char*>(data) + index * static_cast<int64_t>(element_bytes(dtype));
}
inline const void* element_at(DType dtype, const void* data, int64_t index) {
  return static_cast<const char*>(data) + index * static_cast<int64_t>(element_bytes(dtype));
}

inline void* element_at(Tensor& tensor, int64_t index) { return element_at(tensor.dtype(), tensor.raw(), index); }
inline const void* element_at(const Tensor& tensor, int64_t index) { return element_at(tensor.dtype(), tensor.raw(), index); }

// What `length` indices of an axis, from `begin` on, are read from: `source`, source + step, and so on; -1: a number that fills them.
struct Segment {
  int64_t begin, length, source, step;
};

// All indices of an axis, in order.
using IndexMap = std::span<const Segment>;

// The segments of a table of indices, where -1 stands for the number that fills; into `segments`, of which there are at most as many as indices.
IndexMap find_segments(std::span<const int64_t> table, Segment* segments);

// to[i0, i1, …] = from[maps[0][i0], maps[1][i1], …], where what is filled on any axis is the element at `fill`. Not of strings where rows lie apart.
void mapped_copy(KernelContext& context, const InputRows& from, const OutputRows& to, std::span<const IndexMap> maps, const void* fill = nullptr);

// The slices of `from` along `axis` that the valid indices name, one after the other.
void take(const Tensor& from, int axis, std::span<const int64_t> indices, Tensor& to);

// All inputs, which are of one dtype, one after the other along `axis`, into `output` of the right shape. What lies there already is left.
// `row_strides`: by input, elements from one row of its last axis to the next; empty: all are dense.
void concatenate(std::span<const Tensor* const> inputs, int axis, Tensor& output, std::span<const int64_t> row_strides = {});
// The shape of that; throws when shapes or dtypes do not fit.
Shape concatenated_shape(std::span<const Tensor* const> inputs, int axis);
// The slice [begin, begin + output.dim(axis)) of `input` along `axis`.
void copy_slice(const Tensor& input, int axis, int64_t begin, Tensor& output);

}  // namespace anfora::kernels
