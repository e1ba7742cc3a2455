#include "kernels/reference/offsets.h"

#include "kernels/reference/arguments.h"
#include "kernels/reference/broadcast.h"
#include "support/element_types.h"
#include "support/parallel.h"

namespace anfora::kernels {

using IndexTypes = TypeList<int32_t, int64_t>;

std::span<int64_t> element_offsets(KernelContext& context, std::span<const int64_t> shape, const Tensor& indices, int axis) {
  const int rank = static_cast<int>(shape.size());
  if (indices.rank() != rank) refuse("the indices have rank {}, the data {}", indices.rank(), rank);
  for (int d = 0; d < rank; ++d) {
    if (d != axis && indices.dim(d) > shape[d]) {
      refuse("indices of shape {} go beyond data of shape {}", to_string(indices.shape()), to_string(shape));
    }
  }
  const std::span<int64_t> offsets = context.workspace_of<int64_t>(static_cast<size_t>(indices.size()));
  if (offsets.size() == 0) return offsets;
  Shape strides = dense_strides(shape);
  const int64_t size = shape[axis], stride = strides[axis], row = indices.dim(rank - 1);
  strides[axis] = 0;  // the entry's own coordinate along it does not count
  const int64_t step = strides[rank - 1];
  dispatch<IndexTypes>(indices.dtype(), [&]<class T>() {
    const T* index = indices.data<T>().data();
    parallel_for(indices.size() / row, std::max<int64_t>(1, kElementwiseGrain / row), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        int64_t base = 0, rest = r;
        for (int d = rank - 2; d >= 0; rest /= indices.dim(d), --d) base += rest % indices.dim(d) * strides[d];
        for (int64_t i = r * row, k = 0; k < row; ++i, ++k) {
          offsets[i] = base + k * step + normalize_index(index[i], size) * stride;
        }
      }
    });
  });
  return offsets;
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
