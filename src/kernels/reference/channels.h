// Tensors of [batch, channels, …] whose channels have parameters of their own. A vector has one channel.
#pragma once

#include <vector>

#include "kernels/reference/arguments.h"
#include "kernels/reference/broadcast.h"
#include "kernels/reference/cast.h"
#include "kernels/reference/vectorize.h"
#include "support/element_types.h"
#include "support/parallel.h"

namespace anfora::kernels {

struct ChannelView {
  int64_t batch = 0, channels = 0, inner = 0;

  explicit ChannelView(const Tensor& tensor) {
    if (tensor.rank() < 1) refuse("shape {} has no batch axis", to_string(tensor.shape()));
    batch = tensor.dim(0);
    channels = tensor.rank() == 1 ? 1 : tensor.dim(1);
    inner = tensor.rank() == 1 ? 1 : extent(tensor.shape(), 2, tensor.rank());
  }
  // Too short for a loop over one channel to pay; parameters are then better repeated for each element.
  bool has_short_channels() const { return inner < 16; }
};

// The values of a vector with one element a channel, copied to the workspace.
template <class T>
std::span<T> channel_values(KernelContext& context, const Tensor& vector, int64_t channels) {
  if (vector.rank() != 1 || vector.dim(0) != channels) {
    refuse("a parameter of shape {} for {} channels", to_string(vector.shape()), channels);
  }
  Tensor values = context.temporary(dtype_of<T>, vector.shape());
  cast_into(vector, values);
  return values.data<T>();
}

template <class T>
std::span<T> repeat_each(KernelContext& context, std::span<T> values, int64_t times) {
  const std::span<T> repeated = context.workspace_of<T>(values.size() * static_cast<size_t>(times));
  T* to = repeated.data();
  for (T value : values) to = std::fill_n(to, times, value);
  return repeated;
}

template <class T>
void scale_channel(const T* x, T* y, int64_t n, T center, T factor, T bias) {
  parallel_for(n, kElementwiseGrain, [=](int64_t begin, int64_t end) {
    ANFORA_INDEPENDENT_ITERATIONS
    for (int64_t i = begin; i < end; ++i) y[i] = (x[i] - center) * factor + bias;
  });
}

}  // namespace anfora::kernels
