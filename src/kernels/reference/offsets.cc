#include "kernels/reference/offsets.h"

#include "kernels/reference/arguments.h"
#include "kernels/reference/broadcast.h"
#include "support/element_types.h"
#include "support/parallel.h"

namespace anfora::kernels {

using IndexTypes = TypeList<int32_t, int64_t>;

ElementOffsets::ElementOffsets(std::span<const int64_t> shape, const Tensor& indices, int axis) : indices_(indices), strides_(dense_strides(shape)) {
  const int rank = static_cast<int>(shape.size());
  if (indices.rank() != rank) refuse("the indices have rank {}, the data {}", indices.rank(), rank);
  for (int d = 0; d < rank; ++d) {
    if (d != axis && indices.dim(d) > shape[d]) {
      refuse("indices of shape {} go beyond data of shape {}", to_string(indices.shape()), to_string(shape));
    }
  }
  size_ = shape[axis], stride_ = strides_[axis], row_ = indices.dim(rank - 1);
  strides_[axis] = 0;
}

void ElementOffsets::of_row(int64_t row, int64_t* to) const {
  const int rank = indices_.rank();
  const int64_t first = row * row_;
  int64_t base = 0;
  for (int d = rank - 2; d >= 0; row /= indices_.dim(d), --d) base += row % indices_.dim(d) * strides_[d];
  const int64_t size = size_, stride = stride_, step = strides_[rank - 1], count = row_;
  dispatch<IndexTypes>(indices_.dtype(), [&]<class T>() {
    const T* index = indices_.data<T>().data() + first;
    uint64_t signs = 0;  // of index + size and of size - 1 - index: negative where one is outside
    for (int64_t i = 0; i < count; ++i) {
      const auto given = static_cast<uint64_t>(static_cast<int64_t>(index[i])), bound = static_cast<uint64_t>(size);
      signs |= (given + bound) | (bound - 1 - given);
    }
    if (static_cast<int64_t>(signs) < 0) {
      for (int64_t i = 0; i < count; ++i) normalize_index(index[i], size);
    }
    auto normal = [size](int64_t given) { return given + (given < 0 ? size : 0); };
    if (stride == 1 && step == 0) {
      for (int64_t i = 0; i < count; ++i) to[i] = base + normal(index[i]);
    } else {
      for (int64_t i = 0; i < count; ++i) to[i] = base + i * step + normal(index[i]) * stride;
    }
  });
}

std::span<int64_t> element_offsets(KernelContext& context, const ElementOffsets& offsets) {
  const int64_t row = offsets.row();
  const std::span<int64_t> all = context.workspace_of<int64_t>(static_cast<size_t>(offsets.rows() * row));
  parallel_for(offsets.rows(), std::max<int64_t>(1, kElementwiseGrain / std::max<int64_t>(row, 1)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) offsets.of_row(i, all.data() + i * row);
  });
  return all;
}

std::span<int64_t> tuple_offsets(KernelContext& context, std::span<const int64_t> shape, const Tensor& indices, int batch_dims) {
  const int rank = static_cast<int>(shape.size());
  if (indices.rank() < 1 || rank < 1) refuse("data and indices need at least one axis");
  if (batch_dims < 0 || batch_dims >= std::min(rank, indices.rank())) refuse("batch_dims is {}", batch_dims);
  const int64_t length = indices.dim(indices.rank() - 1);
  if (length > rank - batch_dims) refuse("index tuples of length {} for {} axes", length, rank - batch_dims);
  for (int d = 0; d < batch_dims; ++d) {
    if (indices.dim(d) != shape[d]) {
      refuse("the batch axes of data {} and indices {} differ", to_string(shape), to_string(indices.shape()));
    }
  }
  const Shape strides = dense_strides(shape);
  const int64_t tuples = extent(indices.shape(), 0, indices.rank() - 1);
  const int64_t batches = extent(shape, 0, batch_dims), batch_size = extent(shape, batch_dims, rank);
  const int64_t tuples_per_batch = batches == 0 ? 0 : tuples / batches;
  const std::span<int64_t> offsets = context.workspace_of<int64_t>(static_cast<size_t>(tuples));
  dispatch<IndexTypes>(indices.dtype(), [&]<class T>() {
    const T* index = indices.data<T>().data();
    for (int64_t t = 0; t < tuples; ++t) {
      int64_t offset = t / tuples_per_batch * batch_size;
      for (int64_t k = 0; k < length; ++k) {
        int64_t axis = batch_dims + k;
        offset += normalize_index(index[t * length + k], shape[axis]) * strides[axis];
      }
      offsets[t] = offset;
    }
  });
  return offsets;
}

}  // namespace anfora::kernels
