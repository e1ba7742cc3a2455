#include "kernels/generated/convolution_rows.h"

#include <algorithm>
#include <numeric>

namespace anfora::kernels::generated {
namespace {

// Calls f(place in the weights, place in the matrix) for every element.
template <class F>
void for_each_weight(const Shape& shape, const F& f) {
  const int64_t columns = shape[0], channels = shape[1], taps = element_count(shape) / std::max<int64_t>(columns * channels, 1);
  for (int64_t n = 0; n < columns; ++n) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t tap = 0; tap < taps; ++tap) f((n * channels + c) * taps + tap, (tap * channels + c) * columns + n);
    }
  }
}

}  // namespace

Tensor weights_as_matrix(const Tensor& weights) {
  const int64_t columns = weights.dim(0);
  Tensor matrix = Tensor::allocate(weights.dtype(), Shape{weights.size() / std::max<int64_t>(columns, 1), columns});
  const auto* from = static_cast<const std::byte*>(weights.raw());
  auto* to = static_cast<std::byte*>(matrix.raw());
  for_each_weight(weights.shape(), [&](int64_t weight, int64_t place) { to[place] = from[weight]; });
  return matrix;
}

Tensor weights_of_matrix(const Tensor& matrix, const Shape& shape) {
  Tensor weights = Tensor::allocate(matrix.dtype(), shape);
  const auto* from = static_cast<const std::byte*>(matrix.raw());
  auto* to = static_cast<std::byte*>(weights.raw());
  for_each_weight(shape, [&](int64_t weight, int64_t place) { to[weight] = from[place]; });
  return weights;
}

bool ConvolutionRows::is_product(const AttributeSet& attributes, const Shape& weights) {
  return attributes.get_int("channels_last", 0) != 0 && attributes.get_int("group", 1) == 1 && weights.size() > 2;
}

std::optional<ConvolutionRows> ConvolutionRows::resolve(const AttributeSet& attributes, const InputShapes& shapes) {
  if (shapes.size() < 2 || !shapes[0] || !shapes[1]) return std::nullopt;
  const Shape &x = *shapes[0], &w = *shapes[1];
  if (x.size() != w.size() || x.size() < 3 || x.back() != w[1]) return std::nullopt;
  ConvolutionRows rows;
  rows.batch_ = x[0], rows.channels_ = x.back(), rows.columns_ = w[0];
  rows.window_ = read_window(attributes, x.size() - 2, std::span(w).subspan(2));
  resolve_window(rows.window_, std::span(x).subspan(1, x.size() - 2));
  if (rows.batch_ * rows.window_.outputs() == 0 || element_count(w) == 0 || element_count(x) == 0) return std::nullopt;
  if (shapes.size() > 2 && shapes[2] && *shapes[2] != Shape{rows.columns_}) return std::nullopt;
  if (shapes.size() > 3 && shapes[3] && *shapes[3] != rows.product({}).y_shape) return std::nullopt;
  return rows;
}

StridedProduct ConvolutionRows::product(const InputShapes& shapes) const {
  const int64_t count = batch_ * window_.outputs(), depth = window_.taps() * channels_;
  StridedProduct product{.a = StridedOperand::dense(Shape{count, depth}),
                         .b = StridedOperand::dense(Shape{depth, columns_}),
                         .y = StridedOperand::dense(Shape{count, columns_}),
                         .added = {},
                         .y_shape = {batch_}};
  for (const WindowAxis& axis : window_.axes) product.y_shape.push_back(axis.output);
  product.y_shape.push_back(columns_);
  for (size_t i = 2; i < std::min<size_t>(shapes.size(), 4); ++i) {
    if (shapes[i]) product.added.push_back(StridedOperand::dense(Shape{i == 2 ? 1 : count, columns_}));
  }
  return product;
}

bool ConvolutionRows::is_pointwise() const {
  return std::ranges::all_of(window_.axes, [](const WindowAxis& axis) {
    return axis.kernel == 1 && axis.stride == 1 && axis.pad_begin == 0 && axis.pad_end == 0;
  });
}

void ConvolutionRows::pack(const IntegerOperands& integers, const std::byte* x, int64_t i, int32_t padding,
                           void* to) const {
  const size_t rank = window_.rank();
  const WindowAxis& last = window_.axes.back();
  boost::container::small_vector<int64_t, 3> starts(rank), taps(rank, 0);
  for (size_t axis = rank; axis-- > 0;) {
    starts[axis] = window_.axes[axis].start(i % window_.axes[axis].output);
    i /= window_.axes[axis].output;
  }
  int64_t at = 0;  // in parts
  auto fill = [&](int64_t pixels) {
    if (pixels == 0) return;
    integers.fill(padding, pixels * channels_, to, at);
    at += pixels * channels_;
  };
  // Taps of the last axis that see the input; they lie side by side where they are not apart.
  auto taps_before = [&](int64_t distance) { return last.dilation == 1 ? distance : ceil_div(distance, last.dilation); };
  const int64_t first_inside = std::clamp<int64_t>(taps_before(-starts.back()), 0, last.kernel);
  const int64_t end_inside = std::clamp<int64_t>(taps_before(last.input - starts.back()), first_inside, last.kernel);
  const int64_t lines = window_.taps() / last.kernel;
  for (int64_t line = 0; line < lines; ++line) {
    int64_t pixel = i;  // of the batch
    bool is_inside = true;
    for (size_t axis = 0; axis + 1 < rank; ++axis) {
      const int64_t place = starts[axis] + taps[axis] * window_.axes[axis].dilation;
      is_inside = is_inside && place >= 0 && place < window_.axes[axis].input;
      pixel = pixel * window_.axes[axis].input + place;
    }
    if (!is_inside) {
      fill(last.kernel);
    } else {
      fill(first_inside);
      const int64_t run = last.dilation == 1 ? end_inside - first_inside : 1;
      for (int64_t tap = first_inside; tap < end_inside; tap += run) {
        const int64_t from = (pixel * last.input + starts.back() + tap * last.dilation) * channels_;
        integers.pack(x + from, run * channels_, 1, to, at);
        at += run * channels_;
      }
      fill(last.kernel - end_inside);
    }
    for (size_t axis = rank - 1; axis-- > 0;) {
      if (++taps[axis] < window_.axes[axis].kernel) break;
      taps[axis] = 0;
    }
  }
  integers.finish_row(to, at);
}

}  // namespace anfora::kernels::generated
