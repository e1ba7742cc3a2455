#include "kernels/reference/window.h"

#include <fmt/format.h>

#include <algorithm>

#include "anfora/error.h"

namespace anfora::kernels {
namespace {

// Larger kernels, strides, dilations, pads and extents are refused: below it no sum or product here overflows.
constexpr int64_t kLargestExtent = int64_t{1} << 30;

AutoPad parse_auto_pad(const std::string& text) {
  if (text.empty() || text == "NOTSET") return AutoPad::NotSet;
  if (text == "SAME_UPPER") return AutoPad::SameUpper;
  if (text == "SAME_LOWER") return AutoPad::SameLower;
  if (text == "VALID") return AutoPad::Valid;
  throw Error(ErrorCode::InvalidModel, fmt::format("auto_pad is '{}'", text))
      .with_hint("NOTSET, SAME_UPPER, SAME_LOWER and VALID are known");
}

IntegerList read_per_axis(const AttributeSet& attributes, const char* name, size_t count, int64_t lowest) {
  const std::span<const int64_t> given = attributes.ints(name);
  IntegerList values(given.begin(), given.end());
  if (values.empty()) values.assign(count, lowest > 0 ? 1 : 0);
  if (values.size() != count) {
    throw Error(ErrorCode::InvalidModel, fmt::format("{} has {} values, expected {}", name, values.size(), count));
  }
  for (int64_t value : values) {
    if (value < lowest || value > kLargestExtent) {
      throw Error(ErrorCode::InvalidModel, fmt::format("{} holds {}, which is out of range", name, value));
    }
  }
  return values;
}

void check_extent(int64_t extent) {
  if (extent > kLargestExtent) {
    throw Error(ErrorCode::Unsupported, fmt::format("a spatial extent of {} is too large", extent));
  }
}

void split_padding(WindowAxis& axis, int64_t total, bool odd_one_at_the_end) {
  axis.pad_begin = odd_one_at_the_end ? total / 2 : total - total / 2;
  axis.pad_end = total - axis.pad_begin;
}

void resolve_axis(WindowAxis& axis, AutoPad auto_pad, bool ceil_mode) {
  axis.output = window_output(axis, auto_pad, ceil_mode, axis.input, axis.reach());
  if (auto_pad == AutoPad::SameUpper || auto_pad == AutoPad::SameLower) {
    int64_t total = std::max<int64_t>((axis.output - 1) * axis.stride + axis.reach() - axis.input, 0);
    split_padding(axis, total, auto_pad == AutoPad::SameUpper);
  } else if (auto_pad == AutoPad::Valid) {
    axis.pad_begin = axis.pad_end = 0;
  }
  if (axis.output < 0) {
    throw Error(ErrorCode::TypeMismatch,
                fmt::format("a window that spans {} elements does not fit an input of {} with padding {} and {}",
                            axis.reach(), axis.input, axis.pad_begin, axis.pad_end));
  }
}

void check_rank(const Window& window, std::span<const int64_t> spatial) {
  if (window.rank() != spatial.size()) {
    throw Error(ErrorCode::TypeMismatch,
                fmt::format("the kernel has {} spatial dimensions, the input {}", window.rank(), spatial.size()));
  }
  for (int64_t extent : spatial) check_extent(extent);
}

int64_t product(const Window& window, int64_t WindowAxis::* member) {
  Shape extents;
  for (const WindowAxis& axis : window.axes) extents.push_back(axis.*member);
  return element_count(extents);
}

}  // namespace

WindowAxis::Taps WindowAxis::taps_inside(int64_t o) const {
  int64_t first = std::max<int64_t>(ceil_div(-start(o), dilation), 0);
  int64_t last = std::min(ceil_div(input - start(o), dilation), kernel);
  return {std::min(first, std::max<int64_t>(last, 0)), std::max<int64_t>(last, 0)};
}

int64_t WindowAxis::taps_with_padding(int64_t o) const { return std::min(kernel, ceil_div(input + pad_end - start(o), dilation)); }

WindowAxis::Taps WindowAxis::outputs_inside(int64_t t) const {
  int64_t shift = t * dilation - pad_begin;  // output o reads o * stride + shift
  int64_t first = std::clamp<int64_t>(ceil_div(-shift, stride), 0, output);
  int64_t last = std::clamp<int64_t>(ceil_div(input - shift, stride), 0, output);
  return {std::min(first, last), last};
}

int64_t Window::taps() const { return product(*this, &WindowAxis::kernel); }
int64_t Window::inputs() const { return product(*this, &WindowAxis::input); }
int64_t Window::outputs() const { return product(*this, &WindowAxis::output); }

Window read_window(const AttributeSet& attributes, size_t spatial_rank, std::span<const int64_t> weight_kernel) {
  bool has_weights = !weight_kernel.empty();
  const std::span<const int64_t> kernel = attributes.has("kernel_shape") ? attributes.ints("kernel_shape") : weight_kernel;
  if (kernel.empty()) throw Error(ErrorCode::InvalidModel, "the attribute kernel_shape is missing");
  if (kernel.size() != spatial_rank) {
    throw Error(ErrorCode::InvalidModel, fmt::format("kernel_shape has {} values, the input has {} spatial dimensions",
                                                     kernel.size(), spatial_rank));
  }
  if (has_weights && !std::ranges::equal(kernel, weight_kernel)) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("kernel_shape is {}, but the weights have {}", to_string(kernel),
                                                     to_string(weight_kernel)));
  }
  for (int64_t extent : kernel) {
    if (extent < 1 || extent > kLargestExtent) {
      throw Error(ErrorCode::InvalidModel, fmt::format("the kernel's shape is {}", to_string(kernel)));
    }
  }
  const IntegerList strides = read_per_axis(attributes, "strides", spatial_rank, 1);
  const IntegerList dilations = read_per_axis(attributes, "dilations", spatial_rank, 1);
  const IntegerList pads = read_per_axis(attributes, "pads", 2 * spatial_rank, -kLargestExtent);
  Window window;
  window.auto_pad = parse_auto_pad(attributes.get_string("auto_pad", "NOTSET"));
  window.ceil_mode = attributes.get_int("ceil_mode", 0) != 0;
  for (size_t i = 0; i < spatial_rank; ++i) {
    WindowAxis axis;
    axis.kernel = kernel[i];
    axis.stride = strides[i];
    axis.dilation = dilations[i];
    axis.pad_begin = pads[i];
    axis.pad_end = pads[i + spatial_rank];
    window.axes.push_back(axis);
  }
  return window;
}

void resolve_window(Window& window, std::span<const int64_t> spatial) {
  check_rank(window, spatial);
  for (size_t i = 0; i < window.rank(); ++i) {
    window.axes[i].input = spatial[i];
    resolve_axis(window.axes[i], window.auto_pad, window.ceil_mode);
  }
}

TransposedExtents read_transposed_extents(const AttributeSet& attributes, size_t spatial_rank) {
  TransposedExtents extents;
  extents.output_padding = read_per_axis(attributes, "output_padding", spatial_rank, 0);
  const std::span<const int64_t> given = attributes.ints("output_shape");
  IntegerList& shape = extents.output_shape;
  shape.assign(given.begin(), given.end());
  // Some exporters write batch and channels too.
  if (shape.size() == spatial_rank + 2) shape.erase(shape.begin(), shape.begin() + 2);
  if (!shape.empty() && shape.size() != spatial_rank) {
    throw Error(ErrorCode::InvalidModel,
                fmt::format("output_shape has {} values, expected {}", shape.size(), spatial_rank));
  }
  return extents;
}

void transposed_window(Window& window, const AttributeSet& attributes, std::span<const int64_t> spatial) {
  check_rank(window, spatial);
  TransposedExtents extents = read_transposed_extents(attributes, window.rank());
  bool same = window.auto_pad == AutoPad::SameUpper || window.auto_pad == AutoPad::SameLower;
  for (size_t i = 0; i < window.rank(); ++i) {
    WindowAxis& axis = window.axes[i];
    axis.output = spatial[i];
    if (window.auto_pad == AutoPad::Valid) axis.pad_begin = axis.pad_end = 0;
    axis.input = transposed_output(axis, window.auto_pad, extents.output_padding[i], axis.output, axis.reach());
    if (!extents.output_shape.empty()) axis.input = extents.output_shape[i];
    if (same || !extents.output_shape.empty()) {
      int64_t full = axis.stride * (axis.output - 1) + extents.output_padding[i] + axis.reach();
      split_padding(axis, std::max<int64_t>(full - axis.input, 0), window.auto_pad == AutoPad::SameUpper);
    }
    if (axis.input < 0) {
      throw Error(ErrorCode::TypeMismatch, fmt::format("an output extent of {} is not possible", axis.input));
    }
    check_extent(axis.input);
  }
}

Window weight_gradient_window(const AttributeSet& attributes, std::span<const int64_t> x, std::span<const int64_t> dy) {
  const Shape ones(x.size(), 1);
  Window window = read_window(attributes, x.size(), ones);
  for (size_t i = 0; i < x.size(); ++i) {
    WindowAxis& axis = window.axes[i];
    axis.input = x[i], axis.output = dy[i];
    axis.kernel = weight_gradient_kernel(axis, x[i], dy[i]);
    if (axis.kernel < 0) {
      throw Error(ErrorCode::TypeMismatch, fmt::format("{} windows do not fit into {} elements along spatial axis {}", dy[i], x[i], i));
    }
  }
  return window;
}

std::span<const int64_t> spatial_dims(const Tensor& tensor) {
  if (tensor.rank() < 3) {
    throw Error(ErrorCode::TypeMismatch,
                fmt::format("the input has shape {}, but batch, channels and at least one spatial dimension are needed",
                            to_string(tensor.shape())));
  }
  return std::span<const int64_t>(tensor.shape()).subspan(2);
}

}  // namespace anfora::kernels
