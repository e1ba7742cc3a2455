// Transposed convolutions of each channel by itself, channels last: what upsamples by learned or bilinear weights. The library computes them by plain loops.
//
//     y[r, q] = Σ x[r', q'] · w[t]      over the taps by which an element of x reaches the point (r, q) of y
//
// A point of y is reached by a tap in as many as the stride, along each axis. The reaches of an axis are listed once, so that the sums of a
// point, for some channels side by side, are in registers.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/onednn/epilogue.h"
#include "kernels/onednn/families.h"
#include "kernels/onednn/primitive.h"
#include "kernels/reference/window.h"
#include "support/parallel.h"
#include "support/passing_elements.h"
#include "support/scratch.h"

namespace anfora::kernels::onednn {
namespace {

// The elements of x that reach each point of y along an axis, and the taps by which they do.
class Reaches {
 public:
  struct Reach {
    int64_t element, tap;
  };

  // In a transposed window x is the output, and y the input.
  explicit Reaches(const WindowAxis& axis) : first_(static_cast<size_t>(axis.input) + 1) {
    for (int64_t point = 0; point < axis.input; ++point) {
      for (int64_t tap = 0; tap < axis.kernel; ++tap) {
        const int64_t start = point + axis.pad_begin - tap * axis.dilation;
        if (start >= 0 && start % axis.stride == 0 && start / axis.stride < axis.output) all_.push_back({start / axis.stride, tap});
      }
      first_[static_cast<size_t>(point) + 1] = all_.size();
    }
  }

  int64_t points() const { return std::ssize(first_) - 1; }
  std::span<const Reach> of(int64_t point) const {
    const auto at = static_cast<size_t>(point);
    return std::span(all_).subspan(first_[at], first_[at + 1] - first_[at]);
  }
  size_t most() const {
    size_t most = 0;
    for (int64_t point = 0; point < points(); ++point) most = std::max(most, of(point).size());
    return most;
  }

 private:
  std::vector<Reach> all_;
  std::vector<size_t> first_;
};

class DepthwiseTransposedInstance : public ShapedKernel::Instance {
 public:
  // `taps`: [taps, channels].
  DepthwiseTransposedInstance(const WindowAxis& down, const WindowAxis& across, Shape y_shape, const StraightPieces& activation, Tensor taps)
      : down_(down),
        across_(across),
        across_taps_(across.kernel),
        height_(down.output),
        width_(across.output),
        y_shape_(std::move(y_shape)),
        activation_(activation),
        taps_(std::move(taps)) {}

  void execute(KernelContext& context) override {
    const float* x = context.input(0).data<float>().data();
    const Tensor *bias = context.optional_input(2), *addend = context.optional_input(3);
    float* y = context.allocate_output(0, DType::F32, y_shape_).data<float>().data();
    const int64_t channels = y_shape_.back(), rows = down_.points(), columns = across_.points();
    const int64_t most = static_cast<int64_t>(down_.most() * across_.most());
    parallel_for(y_shape_[0] * rows, std::max<int64_t>(1, kGrain / (columns * channels * std::max<int64_t>(most, 1))), [&](int64_t begin, int64_t end) {
      ScratchVector<Term> terms;
      terms.reserve(static_cast<size_t>(most));
      for (int64_t i = begin; i < end; ++i) {
        const float* image = x + i / rows * height_ * width_ * channels;
        for (int64_t column = 0; column < columns; ++column) {
          terms.clear();
          for (const auto& [row_of_x, tap_down] : down_.of(i % rows)) {
            for (const auto& [column_of_x, tap_across] : across_.of(column)) {
              terms.push_back({image + (row_of_x * width_ + column_of_x) * channels, taps_.data<float>().data() + (tap_down * across_taps_ + tap_across) * channels});
            }
          }
          const int64_t at = (i * columns + column) * channels;
          sum(terms, bias ? bias->data<float>().data() : nullptr, addend ? addend->data<float>().data() + at : nullptr, y + at);
        }
      }
    });
  }

 private:
  static constexpr int64_t kGrain = 16384;  // multiplications
  static constexpr int64_t kLanes = 8;
  using Lanes [[gnu::vector_size(kLanes * sizeof(float))]] = float;
  struct Term {
    const float *x, *weights;
  };

  // Of one point: all channels. The addend may lie where y does.
  void sum(std::span<const Term> terms, const float* bias, const float* addend, float* y) const {
    const auto load = [](const float* from) {
      Lanes lanes;
      std::memcpy(&lanes, from, sizeof lanes);
      return lanes;
    };
    const int64_t channels = y_shape_.back();
    int64_t c = 0;
    for (; c + kLanes <= channels; c += kLanes) {
      Lanes value{};
      for (const Term& term : terms) value += load(term.x + c) * load(term.weights + c);
      if (bias) value += load(bias + c);
      if (addend) value += load(addend + c);
      activation_.apply(value);
      std::memcpy(y + c, &value, sizeof value);
    }
    for (; c < channels; ++c) {
      float value = 0;
      for (const Term& term : terms) value += term.x[c] * term.weights[c];
      if (bias) value += bias[c];
      if (addend) value += addend[c];
      activation_.apply(value);
      y[c] = value;
    }
  }

  Reaches down_, across_;
  int64_t across_taps_, height_, width_;
  Shape y_shape_;
  StraightPieces activation_;
  Tensor taps_;
};

class DepthwiseTransposed : public ShapedKernel {
 public:
  using ShapedKernel::ShapedKernel;

  std::unique_ptr<Instance> make(const Shapes& shapes) const override {
    const Shape &x = *shapes[0], &w = *shapes[1];
    const size_t axes = w.size() - 2;
    if (x.size() != w.size() || x.back() != w[0]) return nullptr;
    Window window = read_window(attributes(), axes, std::span(w).subspan(2));
    transposed_window(window, attributes(), std::span(x).subspan(1, axes));
    Shape y_shape{x[0]};
    for (const WindowAxis& axis : window.axes) y_shape.push_back(axis.input);
    y_shape.push_back(w[0]);
    if (element_count(x) == 0 || element_count(y_shape) == 0) return nullptr;
    if (shapes.size() > 2 && shapes[2] && *shapes[2] != Shape{w[0]}) return nullptr;
    if (shapes.size() > 3 && shapes[3] && *shapes[3] != y_shape) return nullptr;
    const Tensor* taps = find_taps(w);
    if (!taps) return nullptr;
    const WindowAxis row{.input = 1, .output = 1};
    return std::make_unique<DepthwiseTransposedInstance>(axes == 2 ? window.axes[0] : row, window.axes.back(), std::move(y_shape), *straight_pieces(attributes()), *taps);
  }

 protected:
  bool packs(size_t i) const override { return i == 1; }

 private:
  // W, [channels, 1, kernel], with the channels beside each other; null where the tensor is gone and no packed one serves.
  const Tensor* find_taps(const Shape& w) const {
    constexpr size_t kTaps = 1;  // among the constants of the data, where the library's convolution has its weights
    const int64_t channels = w[0], taps = element_count(w) / channels;
    return packed_or_made(1, kTaps, {taps, channels}, [&](const Tensor& weights) { return channels_beside(weights, taps); });
  }

  static Tensor channels_beside(const Tensor& weights, int64_t taps) {
    const int64_t channels = weights.dim(0);
    Tensor result = Tensor::allocate(DType::F32, Shape{taps, channels});
    const PassingElements passing(weights);
    const float* from = passing.data<float>();
    float* to = result.data<float>().data();
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t tap = 0; tap < taps; ++tap) to[tap * channels + c] = from[c * taps + tap];
    }
    return result;
  }
};

std::unique_ptr<PreparedKernel> prepare_depthwise_transposed(KernelData& data) {
  constexpr int64_t kFewestChannels = 8;  // a vector
  const AttributeSet& attributes = data.attributes;
  const InputDescription& w = data.input(1);
  if (attributes.get_int("channels_last", 0) == 0 || data.input(0).dtype != DType::F32 || !w.constant.defined()) return nullptr;
  const Shape& shape = w.constant.shape();
  const bool has_axes = shape.size() == 3 || shape.size() == 4;
  if (!has_axes || shape[1] != 1 || shape[0] < kFewestChannels || attributes.get_int("group", 1) != shape[0]) return nullptr;
  return straight_pieces(attributes) ? prepare_shaped<DepthwiseTransposed>(data) : nullptr;
}

}  // namespace

void register_depthwise_transposed(PreparedRegistry& registry) {
  registry.add("LoweredConvTranspose", "loops:depthwise", prepare_depthwise_transposed);
}

}  // namespace anfora::kernels::onednn
