// Convolutions as matrix products.
//
// Conv, one group of one image at a time: the input values that each output reads become a column of a matrix
// ("im2col"), and the output is weights x columns:
//
//     weights [M/group x taps*C/group]   columns [taps*C/group x outputs]
//
// Columns are made for a chunk of outputs at once, so that the matrix stays in cache. ConvTranspose goes the other way:
// weights^T x input gives columns, and each is added to the outputs that it belongs to ("col2im"). DeformConv is Conv
// with another way of filling the columns: by interpolation at shifted positions.
// Chellapilla, Puri, Simard: "High performance convolutional neural networks for document processing" (2006).
#include <fmt/format.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cmath>
#include <optional>

#include "kernels/reference/accumulate.h"
#include "kernels/reference/families.h"
#include "kernels/reference/gemm.h"
#include "kernels/reference/window.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels {
namespace {

// Elements of a matrix of columns: fits the second-level cache.
constexpr int64_t kColumnElements = int64_t{1} << 17;
constexpr int64_t kFewestChunkOutputs = 64;
// Rows of columns that a transposed convolution makes at once.
constexpr int64_t kTransposedRows = 64;

// What Conv, ConvTranspose and DeformConv have in common. For a transposed convolution `in_channels` are still those of
// the tensor X and `out_channels` those of Y.
struct Convolution {
  Window window;
  int64_t batch = 0, groups = 1;
  int64_t in_channels = 0, out_channels = 0;  // of a group
};

int64_t read_group(const AttributeSet& attributes, const char* name, int64_t channels) {
  int64_t group = attributes.get_int(name, 1);
  if (group < 1 || channels % group != 0) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("{} channels do not divide into {} groups", channels, group));
  }
  return group;
}

void check_operands(const Tensor& x, const Tensor& w, const Tensor* bias, int64_t out_channels) {
  if (w.dtype() != x.dtype() || (bias && bias->dtype() != x.dtype())) {
    throw Error(ErrorCode::TypeMismatch,
                fmt::format("input and weights are {} and {}", name(x.dtype()), name(w.dtype())));
  }
  if (bias && (bias->rank() != 1 || bias->dim(0) != out_channels)) {
    throw Error(ErrorCode::TypeMismatch,
                fmt::format("a bias of shape {} for {} output channels", to_string(bias->shape()), out_channels));
  }
}

Shape with_channels(int64_t batch, int64_t channels, const Window& window, int64_t WindowAxis::* extent) {
  Shape shape{batch, channels};
  for (const WindowAxis& axis : window.axes) shape.push_back(axis.*extent);
  return shape;
}

// The weights' spatial dimensions, after a check of rank.
std::span<const int64_t> kernel_dims(const Tensor& x, const Tensor& w) {
  spatial_dims(x);
  if (w.rank() != x.rank()) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("input of shape {} and weights of shape {} differ in rank",
                                                     to_string(x.shape()), to_string(w.shape())));
  }
  return std::span<const int64_t>(w.shape()).subspan(2);
}

// Walks the positions of a row-major grid by lines along the last axis.
class GridLines {
 public:
  GridLines(const Window& window, int64_t WindowAxis::* extent) {
    for (const WindowAxis& axis : window.axes) extents_.push_back(axis.*extent);
  }

  // Coordinates of position p.
  void locate(int64_t p, Shape& at) const {
    at.resize(extents_.size());
    for (size_t i = extents_.size(); i-- > 0; p /= extents_[i]) at[i] = p % extents_[i];
  }

  // Calls body(at, count) for the pieces of lines that make up [begin, end): `at` are the coordinates of the first.
  template <class Body>
  void for_each_piece(int64_t begin, int64_t end, Body&& body) const {
    Shape at;
    while (begin < end) {
      locate(begin, at);
      int64_t count = std::min(extents_.back() - at.back(), end - begin);
      body(std::as_const(at), count);
      begin += count;
    }
  }

 private:
  Shape extents_;
};

// The line of the input plane that tap `tap` reads for outputs at[...] along the last axis; false when it is padding.
bool input_line(const Window& window, const Shape& tap, const Shape& at, int64_t& offset) {
  offset = 0;
  for (size_t i = 0; i + 1 < window.rank(); ++i) {
    const WindowAxis& axis = window.axes[i];
    int64_t coordinate = axis.start(at[i]) + tap[i] * axis.dilation;
    if (coordinate < 0 || coordinate >= axis.input) return false;
    offset = offset * axis.input + coordinate;
  }
  offset *= window.axes.back().input;
  return true;
}

// Fills rows of `columns` for one plane of the input: row t, column p - begin is what output p's tap t reads.
template <class T>
void fill_columns(const Window& window, const T* plane, int64_t begin, int64_t end, T* columns) {
  const WindowAxis& last = window.axes.back();
  GridLines taps(window, &WindowAxis::kernel), outputs(window, &WindowAxis::output);
  Shape tap;
  for (int64_t t = 0; t < window.taps(); ++t) {
    taps.locate(t, tap);
    WindowAxis::Taps inside = last.outputs_inside(tap.back());
    outputs.for_each_piece(begin, end, [&](const Shape& at, int64_t count) {
      int64_t line, first = at.back();
      int64_t from = std::clamp<int64_t>(inside.first - first, 0, count);
      int64_t to = std::clamp<int64_t>(inside.last - first, from, count);
      if (!input_line(window, tap, at, line)) from = to = count;
      std::fill(columns, columns + from, T{0});
      std::fill(columns + to, columns + count, T{0});
      int64_t source = line + last.start(first) + tap.back() * last.dilation;
      if (last.stride == 1) {
        if (from < to) std::copy_n(plane + source + from, to - from, columns + from);
      } else {
        for (int64_t i = from; i < to; ++i) columns[i] = plane[source + i * last.stride];
      }
      columns += count;
    });
  }
}

// The reverse: adds what fill_columns would have read.
template <class T>
void add_columns(const Window& window, const T* columns, T* plane) {
  const WindowAxis& last = window.axes.back();
  GridLines taps(window, &WindowAxis::kernel), outputs(window, &WindowAxis::output);
  Shape tap;
  for (int64_t t = 0; t < window.taps(); ++t) {
    taps.locate(t, tap);
    WindowAxis::Taps inside = last.outputs_inside(tap.back());
    outputs.for_each_piece(0, window.outputs(), [&](const Shape& at, int64_t count) {
      int64_t line;
      if (input_line(window, tap, at, line)) {
        int64_t target = line + last.start(0) + tap.back() * last.dilation;
        for (int64_t i = inside.first; i < inside.last; ++i) plane[target + i * last.stride] += columns[i];
      }
      columns += count;
    });
  }
}

// Every output is the input at the same place: the input is its own matrix of columns.
bool is_pointwise(const Window& window) {
  return std::ranges::all_of(window.axes, [](const WindowAxis& axis) {
    return axis.kernel == 1 && axis.stride == 1 && axis.pad_begin == 0 && axis.input == axis.output;
  });
}

// The shared driver: fill(image, group, begin, end, columns) makes the matrix for outputs [begin, end).
template <class T, class Fill>
void convolve(const Convolution& conv, const T* weights, const T* bias, T* y, Fill&& fill) {
  int64_t outputs = conv.window.outputs(), rows = conv.in_channels * conv.window.taps();
  if (outputs == 0 || conv.batch == 0) return;
  int64_t chunk = std::max(kColumnElements / std::max<int64_t>(rows, 1), kFewestChunkOutputs);
  int64_t chunks = (outputs + chunk - 1) / chunk;
  int64_t work = std::min(chunk, outputs) * rows * conv.out_channels;
  parallel_for(conv.batch * conv.groups * chunks, grain_of(kMultiplyGrain, work), [&](int64_t first, int64_t last) {
    Scratch<T> buffer(static_cast<size_t>(rows * std::min(chunk, outputs)), T{0});
    for (int64_t unit = first; unit < last; ++unit) {
      int64_t image = unit / (conv.groups * chunks), group = unit / chunks % conv.groups;
      int64_t begin = unit % chunks * chunk, end = std::min(begin + chunk, outputs);
      MatrixView<const T> columns = fill(image, group, begin, end, buffer.data());
      MatrixView<T> out{y + (image * conv.groups + group) * conv.out_channels * outputs + begin, conv.out_channels,
                        end - begin, outputs, 1};
      for (int64_t m = 0; m < conv.out_channels; ++m) {
        std::fill_n(out.data + m * outputs, end - begin, bias ? bias[group * conv.out_channels + m] : T{0});
      }
      multiply(matrix(weights + group * conv.out_channels * rows, conv.out_channels, rows), columns, out, true);
    }
  });
}

void conv(KernelContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& w = context.input(1);
  const Tensor* bias = context.optional_input(2);
  Convolution conv;
  conv.window = read_window(context.attributes(), spatial_dims(x).size(), kernel_dims(x, w));
  resolve_window(conv.window, spatial_dims(x));
  conv.batch = x.dim(0);
  conv.groups = read_group(context.attributes(), "group", x.dim(1));
  conv.in_channels = x.dim(1) / conv.groups;
  conv.out_channels = w.dim(0) / conv.groups;
  if (w.dim(1) != conv.in_channels || w.dim(0) % conv.groups != 0) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("weights of shape {} do not fit an input of shape {} in {} groups",
                                                     to_string(w.shape()), to_string(x.shape()), conv.groups));
  }
  check_operands(x, w, bias, w.dim(0));
  Tensor wide_x = widen(context, x), wide_w = widen(context, w), wide_bias = bias ? widen(context, *bias) : Tensor();
  WideOutput y(context, 0, x.dtype(), with_channels(conv.batch, w.dim(0), conv.window, &WindowAxis::output));
  int64_t inputs = conv.window.inputs(), taps = conv.window.taps();
  // u32: the integer convolutions, whose operands are shifted by their zero points first.
  dispatch<Join<FloatAccumulators, TypeList<uint32_t>>>(wide_x.dtype(), [&]<class T>() {
    const T* data = wide_x.data<T>().data();
    bool pointwise = is_pointwise(conv.window);
    auto fill = [&](int64_t image, int64_t group, int64_t begin, int64_t end, T* columns) -> MatrixView<const T> {
      const T* planes = data + (image * conv.groups + group) * conv.in_channels * inputs;
      if (pointwise) return {planes + begin, conv.in_channels, end - begin, inputs, 1};
      for (int64_t c = 0; c < conv.in_channels; ++c) {
        fill_columns(conv.window, planes + c * inputs, begin, end, columns + c * taps * (end - begin));
      }
      return matrix<const T>(columns, conv.in_channels * taps, end - begin);
    };
    convolve<T>(conv, wide_w.data<T>().data(), bias ? wide_bias.data<T>().data() : nullptr, y.data<T>(), fill);
  });
  y.finish();
}

void conv_transpose(KernelContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& w = context.input(1);
  const Tensor* bias = context.optional_input(2);
  Convolution conv;
  conv.window = read_window(context.attributes(), spatial_dims(x).size(), kernel_dims(x, w));
  transposed_window(conv.window, context.attributes(), spatial_dims(x));
  conv.batch = x.dim(0);
  conv.groups = read_group(context.attributes(), "group", x.dim(1));
  conv.in_channels = x.dim(1) / conv.groups;
  conv.out_channels = w.dim(1);
  if (w.dim(0) != x.dim(1)) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("weights of shape {} do not fit an input of shape {}",
                                                     to_string(w.shape()), to_string(x.shape())));
  }
  check_operands(x, w, bias, conv.out_channels * conv.groups);
  Tensor wide_x = widen(context, x), wide_w = widen(context, w), wide_bias = bias ? widen(context, *bias) : Tensor();
  int64_t out_channels = conv.out_channels * conv.groups;
  WideOutput y(context, 0, x.dtype(), with_channels(conv.batch, out_channels, conv.window, &WindowAxis::input));
  // The window looks from Y to X: Y is its input.
  int64_t pixels = conv.window.outputs(), written = conv.window.inputs(), taps = conv.window.taps();
  int64_t block = std::max<int64_t>(kTransposedRows / taps, 1);
  int64_t blocks = (conv.out_channels + block - 1) / block;
  dispatch<FloatAccumulators>(wide_x.dtype(), [&]<class T>() {
    const T* data = wide_x.data<T>().data();
    const T* weights = wide_w.data<T>().data();
    const T* biases = bias ? wide_bias.data<T>().data() : nullptr;
    T* out = y.data<T>();
    int64_t work = block * taps * pixels * conv.in_channels;
    parallel_for(conv.batch * conv.groups * blocks, grain_of(kMultiplyGrain, work), [&](int64_t first, int64_t last) {
      Scratch<T> columns(static_cast<size_t>(block * taps * pixels), T{0});
      for (int64_t unit = first; unit < last; ++unit) {
        int64_t image_group = unit / blocks, group = image_group % conv.groups;
        int64_t channel = unit % blocks * block, count = std::min(block, conv.out_channels - channel);
        T* planes = out + (image_group * conv.out_channels + channel) * written;
        for (int64_t m = 0; m < count; ++m) {
          std::fill_n(planes + m * written, written, biases ? biases[group * conv.out_channels + channel + m] : T{0});
        }
        // The weights of these output channels: [in_channels x count * taps].
        MatrixView<const T> kernel{weights + (group * conv.in_channels * conv.out_channels + channel) * taps,
                                   conv.in_channels, count * taps, conv.out_channels * taps, 1};
        multiply(kernel.transposed(), matrix(data + image_group * conv.in_channels * pixels, conv.in_channels, pixels),
                 matrix(columns.data(), count * taps, pixels));
        for (int64_t m = 0; m < count; ++m) {
          add_columns(conv.window, columns.data() + m * taps * pixels, planes + m * written);
        }
      }
    });
  });
  y.finish();
}

// The gradient by the weights: the sensitivities, as a matrix [M/group x outputs], times the columns that the convolution multiplied the
// weights with, transposed. Each block of input channels goes over all images in their order.
void conv_weight_gradient(KernelContext& context) {
  const Tensor &x = context.input(0), &dy = context.input(1);
  const AttributeSet& attributes = context.attributes();
  const bool channels_last = attributes.get_int("channels_last", 0) != 0;
  const size_t rank = spatial_dims(x).size();
  if (dy.rank() != x.rank() || dy.dim(0) != x.dim(0) || dy.dtype() != x.dtype()) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("a gradient of shape {} for a convolution of an input of shape {}",
                                                     to_string(dy.shape()), to_string(x.shape())));
  }
  Convolution conv;
  const size_t first_axis = channels_last ? 1 : 2;
  conv.window = weight_gradient_window(attributes, std::span(x.shape()).subspan(first_axis, rank), std::span(dy.shape()).subspan(first_axis, rank));
  const int channel_axis = channels_last ? static_cast<int>(rank) + 1 : 1;
  const int64_t in_channels = x.dim(channel_axis), out_channels = dy.dim(channel_axis);
  conv.batch = x.dim(0);
  conv.groups = read_group(attributes, "group", in_channels);
  conv.in_channels = in_channels / conv.groups;
  conv.out_channels = out_channels / read_group(attributes, "group", out_channels);
  Tensor wide_x = widen(context, x), wide_dy = widen(context, dy);
  WideOutput dw(context, 0, x.dtype(), with_channels(out_channels, conv.in_channels, conv.window, &WindowAxis::kernel));
  const int64_t inputs = conv.window.inputs(), outputs = conv.window.outputs(), taps = conv.window.taps();
  if (taps == 0) return dw.finish();
  const int64_t block = std::max<int64_t>(kTransposedRows / taps, 1);
  const int64_t blocks = (conv.in_channels + block - 1) / block;
  const int64_t chunk = std::min(std::max(kColumnElements / (block * taps), kFewestChunkOutputs), outputs);
  dispatch<FloatAccumulators>(wide_x.dtype(), [&]<class T>() {
    const T* images = wide_x.data<T>().data();
    const T* sensitivities = wide_dy.data<T>().data();
    T* to = dw.data<T>();
    const int64_t work = conv.batch * outputs * block * taps * conv.out_channels;
    parallel_for(conv.groups * blocks, grain_of(kMultiplyGrain, work), [&](int64_t first, int64_t last) {
      Scratch<T> columns(static_cast<size_t>(block * taps * chunk)), gathered(channels_last ? static_cast<size_t>(inputs) : 0);
      for (int64_t unit = first; unit < last; ++unit) {
        const int64_t group = unit / blocks, begin = unit % blocks * block, count = std::min(block, conv.in_channels - begin);
        MatrixView<T> sums{to + (group * conv.out_channels * conv.in_channels + begin) * taps, conv.out_channels, count * taps,
                           conv.in_channels * taps, 1};
        for (int64_t m = 0; m < sums.rows; ++m) std::fill_n(sums.data + m * sums.row_stride, sums.columns, T{0});
        auto plane = [&](int64_t image, int64_t channel) {
          if (!channels_last) return images + (image * in_channels + channel) * inputs;
          for (int64_t i = 0; i < inputs; ++i) gathered[static_cast<size_t>(i)] = images[(image * inputs + i) * in_channels + channel];
          return std::as_const(gathered).data();
        };
        for (int64_t image = 0; image < conv.batch; ++image) {
          const int64_t filter = group * conv.out_channels;
          for (int64_t from = 0; from < outputs; from += chunk) {
            const int64_t length = std::min(chunk, outputs - from);
            for (int64_t c = 0; c < count; ++c) {
              fill_columns(conv.window, plane(image, group * conv.in_channels + begin + c), from, from + length,
                           columns.data() + c * taps * length);
            }
            MatrixView<const T> dy_part{sensitivities + (image * out_channels + filter) * outputs + from, conv.out_channels, length, outputs, 1};
            if (channels_last) {
              dy_part = {sensitivities + (image * outputs + from) * out_channels + filter, conv.out_channels, length, 1, out_channels};
            }
            multiply(dy_part, matrix<const T>(columns.data(), count * taps, length).transposed(), sums, true);
          }
        }
      }
    });
  });
  dw.finish();
}

// The value of a plane at a fractional position, linear along each axis, 0 outside.
template <class T>
T interpolate(const Window& window, const T* plane, std::span<const T> position) {
  size_t rank = position.size();
  T sum = 0;
  for (uint32_t corner = 0; corner < (1u << rank); ++corner) {
    T weight = 1;
    int64_t offset = 0;
    for (size_t i = 0; i < rank && weight != 0; ++i) {
      T low = std::floor(position[i]), fraction = position[i] - low;
      bool upper = corner >> i & 1;
      T coordinate = upper ? low + 1 : low;
      weight *= upper ? fraction : 1 - fraction;
      if (!(coordinate >= 0 && coordinate < static_cast<T>(window.axes[i].input))) weight = 0;
      if (weight != 0) offset = offset * window.axes[i].input + static_cast<int64_t>(coordinate);
    }
    if (weight != 0) sum += weight * plane[offset];
  }
  return sum;
}

void check_shape(const Tensor& tensor, const char* what, const Shape& expected) {
  if (tensor.shape() != expected) {
    throw Error(ErrorCode::TypeMismatch,
                fmt::format("{} has shape {}, expected {}", what, to_string(tensor.shape()), to_string(expected)));
  }
}

void deform_conv(KernelContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& w = context.input(1);
  const Tensor& offset = context.input(2);
  const Tensor* bias = context.optional_input(3);
  const Tensor* mask = context.optional_input(4);
  const AttributeSet& attributes = context.attributes();
  Convolution conv;
  conv.window = read_window(attributes, spatial_dims(x).size(), kernel_dims(x, w));
  resolve_window(conv.window, spatial_dims(x));
  conv.batch = x.dim(0);
  conv.groups = read_group(attributes, "group", x.dim(1));
  int64_t offset_groups = read_group(attributes, "offset_group", x.dim(1));
  conv.in_channels = x.dim(1) / conv.groups;
  conv.out_channels = w.dim(0) / conv.groups;
  if (w.dim(1) != conv.in_channels || w.dim(0) % conv.groups != 0) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("weights of shape {} do not fit an input of shape {} in {} groups",
                                                     to_string(w.shape()), to_string(x.shape()), conv.groups));
  }
  check_operands(x, w, bias, w.dim(0));
  int64_t rank = static_cast<int64_t>(conv.window.rank()), taps = conv.window.taps();
  int64_t inputs = conv.window.inputs(), outputs = conv.window.outputs();
  auto per_output = [&](int64_t channels) {
    return with_channels(conv.batch, channels, conv.window, &WindowAxis::output);
  };
  check_shape(offset, "offset", per_output(offset_groups * taps * rank));
  if (mask) check_shape(*mask, "mask", per_output(offset_groups * taps));

  Tensor wide_x = widen(context, x), wide_w = widen(context, w), wide_offset = widen(context, offset);
  Tensor wide_bias = bias ? widen(context, *bias) : Tensor(), wide_mask = mask ? widen(context, *mask) : Tensor();
  WideOutput y(context, 0, x.dtype(), per_output(w.dim(0)));
  GridLines tap_grid(conv.window, &WindowAxis::kernel), output_grid(conv.window, &WindowAxis::output);
  dispatch<FloatAccumulators>(wide_x.dtype(), [&]<class T>() {
    const T* data = wide_x.data<T>().data();
    const T* shifts = wide_offset.data<T>().data();
    const T* factors = mask ? wide_mask.data<T>().data() : nullptr;
    auto fill = [&](int64_t image, int64_t group, int64_t begin, int64_t end, T* columns) -> MatrixView<const T> {
      Shape tap, at;
      boost::container::small_vector<T, 4> position(rank);
      T* to = columns;
      for (int64_t c = group * conv.in_channels; c < (group + 1) * conv.in_channels; ++c) {
        const T* plane = data + (image * x.dim(1) + c) * inputs;
        int64_t offset_group = c / (x.dim(1) / offset_groups);
        for (int64_t t = 0; t < taps; ++t) {
          tap_grid.locate(t, tap);
          int64_t row = (image * offset_groups + offset_group) * taps + t;
          for (int64_t p = begin; p < end; ++p) {
            output_grid.locate(p, at);
            for (int64_t i = 0; i < rank; ++i) {
              const WindowAxis& axis = conv.window.axes[i];
              int64_t regular = axis.start(at[i]) + tap[i] * axis.dilation;
              position[i] = static_cast<T>(regular) + shifts[(row * rank + i) * outputs + p];
            }
            T value = interpolate<T>(conv.window, plane, position);
            *to++ = factors ? value * factors[row * outputs + p] : value;
          }
        }
      }
      return matrix<const T>(columns, conv.in_channels * taps, end - begin);
    };
    convolve<T>(conv, wide_w.data<T>().data(), bias ? wide_bias.data<T>().data() : nullptr, y.data<T>(), fill);
  });
  y.finish();
}

// Depthwise, over the past state and the input back to back; the state's end is what the next call needs.
void causal_conv_with_state(KernelContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& w = context.input(1);
  const Tensor* bias = context.optional_input(2);
  const Tensor* past = context.optional_input(3);
  const std::string_view activation = context.attributes().string("activation", "none");
  bool silu = activation == "silu" || activation == "swish";
  if (!silu && activation != "none") {
    throw Error(ErrorCode::InvalidModel, fmt::format("the activation '{}' is unknown", activation));
  }
  if (x.rank() != 3 || w.rank() != 3 || w.dim(0) != x.dim(1) || w.dim(1) != 1 || w.dim(2) < 1) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("weights of shape {} do not fit an input of shape {}",
                                                     to_string(w.shape()), to_string(x.shape())));
  }
  int64_t channels = x.dim(1), length = x.dim(2), taps = w.dim(2), carried = taps - 1;
  check_operands(x, w, bias, channels);
  Shape state_shape{x.dim(0), channels, carried};
  if (past) check_shape(*past, "past_state", state_shape);
  Tensor wide_x = widen(context, x), wide_w = widen(context, w);
  Tensor wide_bias = bias ? widen(context, *bias) : Tensor(), wide_past = past ? widen(context, *past) : Tensor();
  WideOutput y(context, 0, x.dtype(), x.shape());
  std::optional<WideOutput> present;
  if (context.num_outputs() > 1) present.emplace(context, 1, x.dtype(), state_shape);
  std::span<const float> data = wide_x.data<float>(), weights = wide_w.data<float>();
  parallel_for(x.dim(0) * channels, grain_of(kMultiplyGrain, length * taps), [&](int64_t first, int64_t last) {
    Scratch<float> line(static_cast<size_t>(carried + length));
    for (int64_t unit = first; unit < last; ++unit) {
      int64_t channel = unit % channels;
      if (past) {
        std::copy_n(wide_past.data<float>().begin() + unit * carried, carried, line.begin());
      } else {
        std::fill_n(line.begin(), carried, 0.0f);
      }
      std::copy_n(data.begin() + unit * length, length, line.begin() + carried);
      if (present) std::copy_n(line.end() - carried, carried, present->data<float>() + unit * carried);
      for (int64_t i = 0; i < length; ++i) {
        float sum = bias ? wide_bias.data<float>()[channel] : 0.0f;
        for (int64_t t = 0; t < taps; ++t) sum += weights[channel * taps + t] * line[i + t];
        y.data<float>()[unit * length + i] = silu ? sum / (1 + std::exp(-sum)) : sum;
      }
    }
  });
  y.finish();
  if (present) present->finish();
}

}  // namespace

void register_convolution(KernelRegistry& registry) {
  registry.add("Conv", conv);
  registry.add("ConvTranspose", conv_transpose);
  registry.add("DeformConv", deform_conv);
  registry.add("LoweredConvWeightGradient", conv_weight_gradient);
  registry.add("CausalConvWithState", causal_conv_with_state);
}

}  // namespace anfora::kernels
