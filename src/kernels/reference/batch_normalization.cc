// BatchNormalization, and MeanVarianceNormalization, which shares its statistics along any axes.
//
//   y = (x - mean) * factor + bias
//
// At inference all three are constants of the channel. In training the mean is reduced from the data, the variance
// from the centered data, which are then scaled where they lie.
#include <cmath>
#include <vector>

#include "kernels/reference/arguments.h"
#include "kernels/reference/cast.h"
#include "kernels/reference/channels.h"
#include "kernels/reference/elementwise.h"
#include "kernels/reference/normalization.h"
#include "kernels/reference/reduction.h"
#include "kernels/reference/rows.h"

namespace anfora::kernels {
namespace {

struct Centering {
  template <class T>
  T operator()(T x, T mean) const {
    return x - mean;
  }
};
struct Product {
  template <class T>
  T operator()(T x, T factor) const {
    return x * factor;
  }
};
struct Sum {
  template <class T>
  T operator()(T x, T bias) const {
    return x + bias;
  }
};

template <class T, class Op>
void combine_channels(const Tensor& x, const Tensor& parameter, Tensor& y) {
  const Op op;
  run_binary(binary_loop<T, T, Op>, &op, x, parameter, y, kElementwiseGrain);
}

struct Centered {
  Tensor data, mean, variance;  // the two with size 1 on the reduced axes
};

// In float or double; `x` is one of them.
template <class T>
Centered center(KernelContext& context, const Tensor& x, AxisFlags axes, Tensor data) {
  Centered result{data, reduce_tensor(context, x, axes, Reduction::Mean), {}};
  combine_channels<T, Centering>(x, result.mean, result.data);
  Tensor squares = reduce_tensor(context, result.data, axes, Reduction::SumSquare);
  const T count = static_cast<T>(x.size() / std::max<int64_t>(squares.size(), 1));
  for (T& value : squares.data<T>()) value /= count;
  result.variance = squares;
  return result;
}

template <class T>
void normalize_with(KernelContext& context, const ChannelView& view, Tensor& y) {
  const Tensor& x = context.input(0);
  const double epsilon = context.attributes().get_float("epsilon", 1e-5f);
  std::span<T> factor = channel_values<T>(context, context.input(1), view.channels);
  std::span<T> bias = channel_values<T>(context, context.input(2), view.channels);
  std::span<T> mean = channel_values<T>(context, context.input(3), view.channels);
  std::span<T> variance = channel_values<T>(context, context.input(4), view.channels);
  for (size_t c = 0; c < factor.size(); ++c) {
    factor[c] = static_cast<T>(static_cast<double>(factor[c]) / std::sqrt(static_cast<double>(variance[c]) + epsilon));
  }
  if (!view.has_short_channels()) {
    for_each_row<T>(x, y, view.inner, [&](int64_t r, const T* from, T* to) {
      const auto c = static_cast<size_t>(r % view.channels);
      scale_channel(from, to, view.inner, mean[c], factor[c], bias[c]);
    });
    return;
  }
  mean = repeat_each(context, mean, view.inner);
  factor = repeat_each(context, factor, view.inner);
  bias = repeat_each(context, bias, view.inner);
  const T *means = mean.data(), *factors = factor.data(), *biases = bias.data();
  for_each_row<T>(x, y, static_cast<int64_t>(mean.size()), [&](int64_t, const T* from, T* to) {
    const auto n = static_cast<int64_t>(mean.size());
    ANFORA_INDEPENDENT_ITERATIONS
    for (int64_t i = 0; i < n; ++i) to[i] = (from[i] - means[i]) * factors[i] + biases[i];
  });
}

// momentum * old + (1 - momentum) * new, of the old one's dtype.
void update_running(KernelContext& context, size_t input, size_t output, const Tensor& current) {
  if (context.num_outputs() <= output) return;
  const Tensor& old = context.input(input);
  const double momentum = context.attributes().get_float("momentum", 0.9f);
  Tensor mixed = cast_tensor(context, current, DType::F64).reshaped(old.shape());
  Tensor running = context.temporary(DType::F64, old.shape());
  const Tensor before = cast_tensor(context, old, DType::F64);
  for (int64_t c = 0; c < running.size(); ++c) {
    running.data<double>()[c] = momentum * before.data<double>()[c] + (1 - momentum) * mixed.data<double>()[c];
  }
  cast_into(running, context.allocate_output(output, old.dtype(), old.shape()));
}

template <class T>
void normalize_batch(KernelContext& context, const ChannelView& view, Tensor& y) {
  const Tensor x = cast_tensor(context, context.input(0), dtype_of<T>);
  const double epsilon = context.attributes().get_float("epsilon", 1e-5f);
  const bool has_channels = x.rank() > 1;  // a vector has one channel
  boost::container::small_vector<bool, 8> axes(static_cast<size_t>(x.rank()), true);
  if (has_channels) axes[1] = false;
  const bool direct = y.dtype() == x.dtype();
  Centered centered = center<T>(context, x, axes, direct ? y : context.temporary(x.dtype(), x.shape()));
  Shape by_channel(static_cast<size_t>(x.rank()), 1);
  if (has_channels) by_channel[1] = view.channels;
  std::span<T> factor = channel_values<T>(context, context.input(1), view.channels);
  std::span<T> bias = channel_values<T>(context, context.input(2), view.channels);
  for (size_t c = 0; c < factor.size(); ++c) {
    const double variance = static_cast<double>(centered.variance.data<T>()[c]);
    factor[c] = static_cast<T>(static_cast<double>(factor[c]) / std::sqrt(variance + epsilon));
  }
  combine_channels<T, Product>(centered.data, Tensor::view(dtype_of<T>, by_channel, factor.data(), nullptr), centered.data);
  combine_channels<T, Sum>(centered.data, Tensor::view(dtype_of<T>, by_channel, bias.data(), nullptr), centered.data);
  if (!direct) cast_into(centered.data, y);
  update_running(context, 3, 1, centered.mean);
  update_running(context, 4, 2, centered.variance);
}

}  // namespace

void batch_normalization(KernelContext& context) {
  const Tensor& x = context.input(0);
  const ChannelView view(x);
  const bool training = context.attributes().get_int("training_mode", 0) != 0;
  Tensor& y = context.allocate_output(0, x.dtype(), x.shape());
  dispatch<WideFloats>(compute_dtype(x.dtype()), [&]<class T>() {
    if (training)
      normalize_batch<T>(context, view, y);
    else
      normalize_with<T>(context, view, y);
  });
}

void mean_variance_normalization(KernelContext& context) {
  constexpr double kEpsilon = 1e-9;  // of the operator's definition; keeps 0 / 0 from constant data
  const Tensor& in = context.input(0);
  // By default all but the channels, of images; of fewer dimensions, those of them that there are.
  const std::span<const int64_t> given = context.attributes().ints("axes");
  IntegerList reduced(given.begin(), given.end());
  if (!context.attributes().has("axes")) {
    for (int64_t axis : {0, 2, 3}) {
      if (axis < in.rank()) reduced.push_back(axis);
    }
  }
  boost::container::small_vector<bool, 8> axes(static_cast<size_t>(in.rank()), false);
  for (int axis : normalize_axes(reduced, in.rank())) axes[axis] = true;
  Tensor& y = context.allocate_output(0, in.dtype(), in.shape());
  dispatch<WideFloats>(compute_dtype(in.dtype()), [&]<class T>() {
    const Tensor x = cast_tensor(context, in, dtype_of<T>);
    const bool direct = y.dtype() == x.dtype();
    Centered centered = center<T>(context, x, axes, direct ? y : context.temporary(x.dtype(), x.shape()));
    for (T& value : centered.variance.data<T>()) {
      value = static_cast<T>(1 / (std::sqrt(static_cast<double>(value)) + kEpsilon));
    }
    combine_channels<T, Product>(centered.data, centered.variance, centered.data);
    if (!direct) cast_into(centered.data, y);
  });
}

}  // namespace anfora::kernels
