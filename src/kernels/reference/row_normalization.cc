// Normalizations whose statistics are those of contiguous elements.
//
//   LayerNormalization, RMSNormalization   a row: the dimensions from the axis on; scale and bias by element of the row
//   GroupNormalization                     a row: a group of channels of an instance; scale and bias by channel
//   InstanceNormalization                  the same with a channel a group
//   LoweredGroupNormalization, LoweredInstanceNormalization   the same of [batch, spatial…, channels], where a group is a few
//                                          elements of each position: sums are taken channel by channel, then of the groups
//
//   y = (x - center) * factor * scale + bias
//
// with the statistics folded in double and rounded once. stash_type only asks for at least the precision of f32 in the
// first stage, and everything here has it, so that narrow floats are rounded once, at the end.
#include <cmath>
#include <optional>

#include "kernels/reference/arguments.h"
#include "kernels/reference/cast.h"
#include "kernels/reference/channels.h"
#include "kernels/reference/elementwise.h"
#include "kernels/reference/normalization.h"
#include "kernels/reference/rows.h"
#include "kernels/reference/strided_copy.h"

namespace anfora::kernels {
namespace {

// Scale or bias of a tensor of `shape`, to which it broadcasts, laid out row by row: one row that all share where it
// does not change along the dimensions before the axis.
template <class T>
class RowFactors {
 public:
  RowFactors() = default;
  RowFactors(KernelContext& context, const Tensor& factors, const Shape& shape, int axis) {
    if (broadcast_shape(factors.shape(), shape) != shape) {
      throw Error(ErrorCode::TypeMismatch,
                  fmt::format("a scale or bias of shape {} does not broadcast to the data's, {}",
                              to_string(factors.shape()), to_string(shape)));
    }
    const int lead = static_cast<int>(shape.size()) - factors.rank();
    bool shared = true;
    for (int i = lead; i < axis; ++i) shared &= factors.dim(i - lead) == 1;
    const Shape target(shared ? shape.begin() + axis : shape.begin(), shape.end());
    const Shape own(factors.shape().begin() + (shared ? std::max(axis - lead, 0) : 0), factors.shape().end());
    values_ = cast_tensor(context, factors, dtype_of<T>).reshaped(own);
    if (own != target) {
      Tensor expanded = context.temporary(dtype_of<T>, target);
      strided_copy(dtype_of<T>, target, expanded.raw(), dense_strides(target), values_.raw(),
                   broadcast_strides(own, target));
      values_ = expanded;
    }
    stride_ = shared ? 0 : extent(shape, axis, static_cast<int>(shape.size()));
  }
  const T* row(int64_t r) const { return values_.defined() ? values_.data<T>().data() + r * stride_ : nullptr; }

 private:
  Tensor values_;
  int64_t stride_ = 0;
};

template <class T>
void scale_row(const T* x, T* y, int64_t n, T center, T factor, const T* scale, const T* bias) {
  parallel_for(n, kElementwiseGrain, [=](int64_t begin, int64_t end) {
    if (!bias) {
      ANFORA_INDEPENDENT_ITERATIONS
      for (int64_t i = begin; i < end; ++i) y[i] = (x[i] - center) * factor * scale[i];
      return;
    }
    ANFORA_INDEPENDENT_ITERATIONS
    for (int64_t i = begin; i < end; ++i) y[i] = (x[i] - center) * factor * scale[i] + bias[i];
  });
}

double inverse_deviation(double variance, double epsilon) { return 1 / std::sqrt(variance + epsilon); }

// The statistics of each row, for the outputs that show them.
void set_statistics(KernelContext& context, size_t i, const Shape& shape, std::span<const double> values) {
  if (context.num_outputs() <= i) return;
  Tensor& out = context.allocate_output(i, dtype_attribute(context.attributes(), "stash_type", DType::F32), shape);
  cast_elements(DType::F64, values.data(), out.dtype(), out.raw(), out.size());
}

}  // namespace

void layer_normalization(KernelContext& context) {
  const Tensor &x = context.input(0), &scale = context.input(1);
  const Tensor* bias = context.optional_input(2);
  const int axis = normalize_axis(context.attributes().get_int("axis", -1), x.rank());
  const double epsilon = context.attributes().get_float("epsilon", 1e-5f);
  const int64_t length = extent(x.shape(), axis, x.rank());
  Shape rows = x.shape();
  std::fill(rows.begin() + axis, rows.end(), 1);
  const auto row_count = static_cast<size_t>(element_count(rows));
  const std::span<double> means = context.workspace_of<double>(row_count, NAN),
                          inverses = context.workspace_of<double>(row_count, NAN);
  Tensor& y = context.allocate_output(0, x.dtype(), x.shape());
  dispatch<WideFloats>(compute_dtype(x.dtype()), [&]<class T>() {
    const RowFactors<T> scales(context, scale, x.shape(), axis);
    const RowFactors<T> biases = bias ? RowFactors<T>(context, *bias, x.shape(), axis) : RowFactors<T>();
    for_each_row<T>(x, y, length, [&](int64_t r, const T* from, T* to) {
      const Moments moments = row_moments(from, length);
      means[r] = moments.mean;
      inverses[r] = inverse_deviation(moments.variance, epsilon);
      scale_row(from, to, length, static_cast<T>(means[r]), static_cast<T>(inverses[r]), scales.row(r), biases.row(r));
    });
  });
  set_statistics(context, 1, rows, means);
  set_statistics(context, 2, rows, inverses);
}

void rms_normalization(KernelContext& context) {
  const Tensor &x = context.input(0), &scale = context.input(1);
  const int axis = normalize_axis(context.attributes().get_int("axis", -1), x.rank());
  const double epsilon = context.attributes().get_float("epsilon", 1e-5f);
  const int64_t length = extent(x.shape(), axis, x.rank());
  Tensor& y = context.allocate_output(0, scale.dtype(), x.shape());
  const bool is_double = x.dtype() == DType::F64 || scale.dtype() == DType::F64;
  dispatch<WideFloats>(is_double ? DType::F64 : DType::F32, [&]<class T>() {
    const RowFactors<T> scales(context, scale, x.shape(), axis);
    for_each_row<T>(x, y, length, [&](int64_t r, const T* from, T* to) {
      const double mean_square = fold_long_row(from, length, SumSquareFold{}) / static_cast<double>(length);
      const T factor = static_cast<T>(inverse_deviation(mean_square, epsilon));
      scale_row<T>(from, to, length, T{0}, factor, scales.row(r), nullptr);
    });
  });
}

namespace {

// Channels of [batch, channels, …] in `groups` groups.
void normalize_groups(KernelContext& context, int64_t groups) {
  const Tensor& x = context.input(0);
  const ChannelView view(x);
  if (groups < 1 || view.channels % groups != 0) {
    refuse("{} channels do not divide into {} groups", view.channels, groups);
  }
  const double epsilon = context.attributes().get_float("epsilon", 1e-5f);
  const int64_t group_size = view.channels / groups, length = group_size * view.inner;
  Tensor& y = context.allocate_output(0, x.dtype(), x.shape());
  dispatch<WideFloats>(compute_dtype(x.dtype()), [&]<class T>() {
    const std::span<T> scale = channel_values<T>(context, context.input(1), view.channels);
    const std::span<T> bias = channel_values<T>(context, context.input(2), view.channels);
    const bool by_element = view.has_short_channels() && group_size > 1;
    const std::span<T> scales = by_element ? repeat_each(context, scale, view.inner) : scale;
    const std::span<T> biases = by_element ? repeat_each(context, bias, view.inner) : bias;
    for_each_row<T>(x, y, length, [&](int64_t r, const T* from, T* to) {
      const Moments moments = row_moments(from, length);
      const T center = static_cast<T>(moments.mean);
      const double factor = inverse_deviation(moments.variance, epsilon);
      const int64_t first = r % groups * group_size;
      if (by_element) {
        const int64_t at = first * view.inner;
        return scale_row(from, to, length, center, static_cast<T>(factor), scales.data() + at, biases.data() + at);
      }
      for (int64_t c = 0; c < group_size; ++c) {
        const T channel_factor = static_cast<T>(factor * static_cast<double>(scale[first + c]));
        const int64_t at = c * view.inner;
        scale_channel(from + at, to + at, view.inner, center, channel_factor, bias[first + c]);
      }
    });
  });
}

}  // namespace

void instance_normalization(KernelContext& context) {
  const Tensor& x = context.input(0);
  normalize_groups(context, ChannelView(x).channels);
}

void group_normalization(KernelContext& context) {
  normalize_groups(context, context.attributes().require_int("num_groups"));
}

namespace {

// Positions whose channels are summed up together, whatever the number of threads.
constexpr int64_t kPositionsOfBlock = 64;

class ChannelsLast {
 public:
  ChannelsLast(KernelContext& context, const Tensor& x, int64_t groups)
      : context_(context), batch_(x.dim(0)), channels_(x.dim(x.rank() - 1)), positions_(extent(x.shape(), 1, x.rank() - 1)), groups_(groups),
        blocks_((positions_ + kPositionsOfBlock - 1) / kPositionsOfBlock) {}

  template <class T>
  void normalize(const T* x, T* y, double epsilon) {
    const std::span<T> scale = channel_values<T>(context_, context_.input(1), channels_);
    const std::span<T> bias = channel_values<T>(context_, context_.input(2), channels_);
    const auto size = static_cast<size_t>(batch_ * channels_);
    const std::span<double> sums = context_.workspace_of<double>(size * static_cast<size_t>(blocks_));
    const std::span<double> means = context_.workspace_of<double>(size);
    const std::span<T> centers = context_.workspace_of<T>(size), factors = context_.workspace_of<T>(size);
    for_each_block([&](int64_t block, int64_t first, int64_t count, int64_t) {
      sum_positions(x + first, count, sums.data() + block * channels_, [](T element, int64_t) { return static_cast<double>(element); });
    });
    for_each_group(sums, [&](int64_t n, int64_t c, double mean) {
      means[n * channels_ + c] = mean;
      centers[n * channels_ + c] = static_cast<T>(mean);
    });
    for_each_block([&](int64_t block, int64_t first, int64_t count, int64_t n) {
      const double* mean = means.data() + n * channels_;
      sum_positions(x + first, count, sums.data() + block * channels_, [mean](T element, int64_t c) {
        const double deviation = element - mean[c];
        return deviation * deviation;
      });
    });
    for_each_group(sums, [&](int64_t n, int64_t c, double variance) {
      factors[n * channels_ + c] = static_cast<T>(inverse_deviation(variance, epsilon) * static_cast<double>(scale[c]));
    });
    for_each_block([&](int64_t, int64_t first, int64_t count, int64_t n) {
      const T *center = centers.data() + n * channels_, *factor = factors.data() + n * channels_;
      for (int64_t i = 0; i < count; ++i) {
        const T* from = x + first + i * channels_;
        T* to = y + first + i * channels_;
        ANFORA_INDEPENDENT_ITERATIONS
        for (int64_t c = 0; c < channels_; ++c) to[c] = (from[c] - center[c]) * factor[c] + bias[c];
      }
    });
  }

 private:
  // sums[c] = Σ term(element, c) over `count` positions, some of which are added at a time.
  template <class T, class Term>
  void sum_positions(const T* x, int64_t count, double* sums, const Term& term) const {
    constexpr int64_t kTogether = 8;
    std::fill_n(sums, channels_, 0);
    auto add = [&](const T* rows, auto positions) {
      ANFORA_INDEPENDENT_ITERATIONS
      for (int64_t c = 0; c < channels_; ++c) {
        double sum = sums[c];
#pragma GCC unroll 8
        for (int64_t i = 0; i < positions.value; ++i) sum += term(rows[i * channels_ + c], c);
        sums[c] = sum;
      }
    };
    int64_t position = 0;
    for (; position + kTogether <= count; position += kTogether) add(x + position * channels_, std::integral_constant<int64_t, kTogether>());
    for (; position < count; ++position) add(x + position * channels_, std::integral_constant<int64_t, 1>());
  }

  // body(block, its first element, its positions, its instance)
  template <class Body>
  void for_each_block(Body&& body) const {
    parallel_for(batch_ * blocks_, grain_of(kElementwiseGrain, channels_ * kPositionsOfBlock), [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t n = block / blocks_, position = block % blocks_ * kPositionsOfBlock;
        body(block, (n * positions_ + position) * channels_, std::min(kPositionsOfBlock, positions_ - position), n);
      }
    });
  }

  // body(instance, channel, the mean of its group): of sums, by block and channel.
  template <class Body>
  void for_each_group(std::span<const double> sums, Body&& body) const {
    const int64_t size = channels_ / groups_;
    for (int64_t n = 0; n < batch_; ++n) {
      for (int64_t first = 0; first < channels_; first += size) {
        double sum = 0;
        for (int64_t block = n * blocks_; block < (n + 1) * blocks_; ++block) {
          for (int64_t c = first; c < first + size; ++c) sum += sums[static_cast<size_t>(block * channels_ + c)];
        }
        for (int64_t c = first; c < first + size; ++c) body(n, c, sum / static_cast<double>(size * positions_));
      }
    }
  }

  KernelContext& context_;
  const int64_t batch_, channels_, positions_, groups_, blocks_;
};

// Without groups, each channel is one.
void normalize_channels_last(KernelContext& context, std::optional<int64_t> given_groups) {
  const Tensor& in = context.input(0);
  if (in.rank() < 2) refuse("shape {} has no batch and channel axis", to_string(in.shape()));
  const int64_t channels = in.dim(in.rank() - 1), groups = given_groups.value_or(channels);
  if (given_groups && (groups < 1 || channels % groups != 0)) refuse("{} channels do not divide into {} groups", channels, groups);
  Tensor& out = context.allocate_output(0, in.dtype(), in.shape());
  if (in.size() == 0) return;
  const double epsilon = context.attributes().get_float("epsilon", 1e-5f);
  dispatch<WideFloats>(compute_dtype(in.dtype()), [&]<class T>() {
    const Tensor x = cast_tensor(context, in, dtype_of<T>);
    Tensor y = out.dtype() == x.dtype() ? out : context.temporary(x.dtype(), in.shape());
    ChannelsLast(context, x, groups).normalize(x.data<T>().data(), y.data<T>().data(), epsilon);
    if (y.raw() != out.raw()) cast_into(y, out);
  });
}

bool are_channels_last(const KernelContext& context) { return context.attributes().get_int("channels_last", 0) != 0; }

}  // namespace

void lowered_instance_normalization(KernelContext& context) {
  are_channels_last(context) ? normalize_channels_last(context, std::nullopt) : instance_normalization(context);
}

void lowered_group_normalization(KernelContext& context) {
  are_channels_last(context) ? normalize_channels_last(context, context.attributes().require_int("num_groups")) : group_normalization(context);
}

}  // namespace anfora::kernels
