#include "kernels/generated/convolution_rows.h"

#include <algorithm>
#include <cstring>

#include "support/parallel.h"
#include "support/scratch.h"

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

// memcpy() of a few bytes as a rule: the last piece overlaps the one before.
void copy_run(const std::byte* from, int64_t count, std::byte* to) {
  auto copy = [&]<size_t Piece>() {
    constexpr auto kPiece = static_cast<int64_t>(Piece);
    for (int64_t i = 0; i + kPiece < count; i += kPiece) std::memcpy(to + i, from + i, Piece);
    std::memcpy(to + count - kPiece, from + count - kPiece, Piece);
  };
  if (count >= 32) return copy.operator()<32>();
  if (count >= 16) return copy.operator()<16>();
  if (count >= 8) return copy.operator()<8>();
  for (int64_t i = 0; i < count; ++i) to[i] = from[i];
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
  rows.window_ = read(attributes, w);
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

std::optional<StridedProduct> ConvolutionRows::product_in_place(const InputShapes& shapes) const {
  if (is_pointwise()) return product(shapes);
  const WindowAxis& axis = window_.axes[0];
  const bool is_inside = axis.pad_begin == 0 && axis.start(axis.output - 1) + axis.reach() <= axis.input;
  if (window_.rank() != 1 || axis.dilation != 1 || !is_inside) return std::nullopt;
  StridedProduct result = product(shapes);
  const int64_t depth = axis.kernel * channels_;
  result.a = {.dims = {batch_, axis.output, depth}, .strides = {axis.input * channels_, axis.stride * channels_, 1}};
  result.b.align(3);
  result.y = StridedOperand::dense(Shape{batch_, axis.output, columns_});
  for (StridedOperand& added : result.added) added = added.dims[0] == 1 ? StridedOperand{.dims = {1, 1, columns_}, .strides = {0, 0, 1}} : result.y;
  return result;
}

bool ConvolutionRows::is_pointwise() const {
  return std::ranges::all_of(window_.axes, [](const WindowAxis& axis) {
    return axis.kernel == 1 && axis.stride == 1 && axis.pad_begin == 0 && axis.pad_end == 0;
  });
}

template <class Fill, class Copy>
void ConvolutionRows::walk(int64_t i, const Fill& fill, const Copy& copy) const {
  const size_t rank = window_.rank();
  const WindowAxis& last = window_.axes.back();
  boost::container::small_vector<int64_t, 3> starts(rank), taps(rank, 0);
  for (size_t axis = rank; axis-- > 0;) {
    starts[axis] = window_.axes[axis].start(i % window_.axes[axis].output);
    i /= window_.axes[axis].output;
  }
  auto fill_pixels = [&](int64_t pixels) {
    if (pixels > 0) fill(pixels * channels_);
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
      fill_pixels(last.kernel);
    } else {
      fill_pixels(first_inside);
      const int64_t run = last.dilation == 1 ? end_inside - first_inside : 1;
      for (int64_t tap = first_inside; tap < end_inside; tap += run)
        copy((pixel * last.input + starts.back() + tap * last.dilation) * channels_, run * channels_);
      fill_pixels(last.kernel - end_inside);
    }
    for (size_t axis = rank - 1; axis-- > 0;) {
      if (++taps[axis] < window_.axes[axis].kernel) break;
      taps[axis] = 0;
    }
  }
}

void ConvolutionRows::pack(const IntegerOperands& integers, const std::byte* x, int64_t i, int32_t padding, void* to) const {
  int64_t at = 0;  // in parts
  const auto fill = [&](int64_t count) {
    integers.fill(padding, count, to, at);
    at += count;
  };
  const auto copy = [&](int64_t from, int64_t count) {
    integers.pack(x + from, count, 1, to, at);
    at += count;
  };
  walk(i, fill, copy);
  integers.finish_row(to, at);
}

void ConvolutionRows::gather_pixels(const float* x, int64_t first, int64_t count, float* to, int64_t stride) const {
  for (int64_t i = first; i < first + count; ++i, to += stride) {
    int64_t pixel = 0, size = 1, rest = i;
    bool is_inside = true;
    for (size_t axis = window_.rank(); axis-- > 0;) {
      const WindowAxis& of = window_.axes[axis];
      const int64_t place = of.start(rest % of.output);
      rest /= of.output;
      is_inside = is_inside && place >= 0 && place < of.input;
      pixel += place * size;
      size *= of.input;
    }
    pixel += rest * size;
    is_inside ? std::copy_n(x + pixel * channels_, channels_, to) : std::fill_n(to, channels_, 0.0f);
  }
}

void ConvolutionRows::gather(const float* x, int64_t first, int64_t count, float* to, int64_t stride) const {
  if (window_.taps() == 1) return gather_pixels(x, first, count, to, stride);
  for (int64_t i = first; i < first + count; ++i, to += stride) {
    float* at = to;
    const auto fill = [&](int64_t elements) { at = std::fill_n(at, elements, 0.0f); };
    const auto copy = [&](int64_t from, int64_t elements) {
      copy_run(reinterpret_cast<const std::byte*>(x + from), elements * int64_t{sizeof(float)}, reinterpret_cast<std::byte*>(at));
      at += elements;
    };
    walk(i, fill, copy);
  }
}

template <class Fill, class Copy>
void ConvolutionRows::walk_line(int64_t line, int64_t first, int64_t end, const Fill& fill, const Copy& copy) const {
  const WindowAxis& last = window_.axes.back();
  const int64_t begin_inside = std::clamp(-last.start(0), first, end), end_inside = std::clamp(last.input - last.start(0), begin_inside, end);
  int64_t from = 0, size = 1;  // `from`: the line of x
  bool is_inside = true;
  for (size_t axis = window_.rank() - 1; axis-- > 0;) {
    const WindowAxis& of = window_.axes[axis];
    const int64_t place = line % extent(of) + of.start(0);
    is_inside = is_inside && place >= 0 && place < of.input;
    from += place * size;
    line /= extent(of), size *= of.input;
  }
  from += line * size;
  if (!is_inside) return fill((end - first) * channels_);
  fill((begin_inside - first) * channels_);
  copy((from * last.input + last.start(0) + begin_inside) * channels_, (end_inside - begin_inside) * channels_);
  fill((end - end_inside) * channels_);
}

int64_t ConvolutionRows::extended_parts() const {
  int64_t steps = 1, pixels = batch_;
  for (const WindowAxis& axis : window_.axes) {
    steps *= axis.stride;
    pixels *= extent(axis);
  }
  return window_.taps() > steps ? pixels * channels_ : 0;
}

void ConvolutionRows::extend(const IntegerOperands& integers, const std::byte* x, int32_t padding, void* to) const {
  const int64_t width = pixels_of_line() * channels_, lines = extended_parts() / width;
  constexpr int64_t kWork = 1 << 16;
  parallel_for(lines, grain_of(kWork, width), [&](int64_t first_line, int64_t end_line) {
    int64_t at = first_line * width;  // in parts
    const auto fill = [&](int64_t count) {
      integers.fill(padding, count, to, at);
      at += count;
    };
    const auto copy = [&](int64_t from, int64_t count) {
      integers.pack(x + from, count, 1, to, at);
      at += count;
    };
    for (int64_t line = first_line; line < end_line; ++line) walk_line(line, 0, pixels_of_line(), fill, copy);
  });
}

void ConvolutionRows::pack_extended(const IntegerOperands& integers, const void* extended, int64_t begin, int64_t end, std::byte* to,
                                    int64_t row_bytes) const {
  const size_t rank = window_.rank();
  const WindowAxis& last = window_.axes.back();
  const int64_t pixel_bytes = channels_ * integers.part_bytes();
  // Taps of the last axis lie side by side where they are not apart.
  const int64_t taps_of_run = last.dilation == 1 ? last.kernel : 1, run_bytes = taps_of_run * pixel_bytes;
  const int64_t runs = window_.taps() / taps_of_run, runs_of_line = last.kernel / taps_of_run;
  Scratch<int64_t> distances(static_cast<size_t>(runs));  // of the runs from the window's first tap, in bytes
  for (int64_t run = 0; run < runs; ++run) {
    int64_t left = run / runs_of_line, size = pixels_of_line(), pixel = run % runs_of_line * last.dilation;
    for (size_t axis = rank - 1; axis-- > 0;) {
      const WindowAxis& of = window_.axes[axis];
      pixel += left % of.kernel * of.dilation * size;
      left /= of.kernel, size *= extent(of);
    }
    distances[static_cast<size_t>(run)] = pixel * pixel_bytes;
  }
  while (begin < end) {  // a line of the result at a time
    int64_t left = begin / last.output, size = pixels_of_line(), pixel = begin % last.output * last.stride;
    const int64_t count = std::min(end - begin, last.output - begin % last.output);
    for (size_t axis = rank - 1; axis-- > 0;) {
      const WindowAxis& of = window_.axes[axis];
      pixel += left % of.output * of.stride * size;
      left /= of.output, size *= extent(of);
    }
    const std::byte* from = static_cast<const std::byte*>(extended) + (left * size + pixel) * pixel_bytes;
    for (int64_t i = 0; i < count; ++i, from += last.stride * pixel_bytes, to += row_bytes) {
      std::byte* row = to;
      for (int64_t distance : distances) {
        copy_run(from + distance, run_bytes, row);
        row += run_bytes;
      }
      std::fill(row, to + integers.words(window_.taps() * channels_) * int64_t{sizeof(int32_t)}, std::byte{0});
    }
    begin += count;
  }
}

}  // namespace anfora::kernels::generated
