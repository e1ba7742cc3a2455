// Geometry of sliding windows, shared by convolutions and poolings.
//
// Along each spatial axis a window of `kernel` taps, `dilation` apart, moves in steps of `stride` over the input,
// which is thought of as extended by padding:
//
//        pad_begin        input          pad_end
//        . . . . | x x x x x x x x x x | . . .
//          k   k   k                               window 0 (kernel 3, dilation 2), reach 5
//            ->stride  k   k   k                   window 1
//
// Output o's tap t reads input coordinate start(o) + t * dilation. A transposed convolution is the same picture with
// the roles of input and output exchanged, so its axes are described by the same struct (see transposed_window()).
#pragma once

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <span>
#include <vector>

#include "anfora/tensor.h"
#include "kernels/reference/arguments.h"
#include "support/attribute.h"

namespace anfora::kernels {

enum class AutoPad : uint8_t { NotSet, SameUpper, SameLower, Valid };

// One axis; `input` and `output` are extents, set by resolve_window() and transposed_window().
struct WindowAxis {
  int64_t kernel = 1, stride = 1, dilation = 1;
  int64_t pad_begin = 0, pad_end = 0;  // negative: cropped
  int64_t input = 0, output = 0;

  int64_t reach() const { return (kernel - 1) * dilation + 1; }
  int64_t start(int64_t o) const { return o * stride - pad_begin; }
  // The taps of window o that read the input rather than padding: [first, last), empty when first == last.
  struct Taps {
    int64_t first, last;
  };
  Taps taps_inside(int64_t o) const;
  // Taps of window o that read input or padding, but nothing past the padding's end.
  int64_t taps_with_padding(int64_t o) const;
  // The outputs whose tap t reads the input: [first, last).
  Taps outputs_inside(int64_t t) const;
};

struct Window {
  boost::container::small_vector<WindowAxis, 3> axes;
  AutoPad auto_pad = AutoPad::NotSet;
  bool ceil_mode = false;

  size_t rank() const { return axes.size(); }
  int64_t taps() const;     // of the whole kernel
  int64_t inputs() const;   // elements of one input plane
  int64_t outputs() const;  // elements of one output plane
};

inline int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }
inline int64_t ceil_div(int64_t a, int64_t b) { return floor_div(a + b - 1, b); }

// The two formulas of output extents, for numbers and for symbolic dimensions (found by their operators). The pads of
// the axis are those of the attribute; its reach is given.
template <class Extent>
Extent window_output(const WindowAxis& axis, AutoPad auto_pad, bool ceil_mode, Extent input, Extent reach) {
  using std::min;
  if (auto_pad == AutoPad::SameUpper || auto_pad == AutoPad::SameLower) return ceil_div(input, axis.stride);
  bool valid = auto_pad == AutoPad::Valid;  // without padding, and a window that does not fit is not valid
  int64_t padding = valid ? 0 : axis.pad_begin + axis.pad_end;
  Extent room = input - reach + padding;
  if (!ceil_mode || valid) return floor_div(room, axis.stride) + 1;
  // A window that would start in the padding at the end is ignored.
  return min(ceil_div(room, axis.stride) + 1, ceil_div(input + axis.pad_begin, axis.stride));
}
template <class Extent>
Extent transposed_output(const WindowAxis& axis, AutoPad auto_pad, int64_t output_padding, Extent input, Extent reach) {
  if (auto_pad == AutoPad::SameUpper || auto_pad == AutoPad::SameLower) return input * axis.stride;
  int64_t padding = auto_pad == AutoPad::Valid ? 0 : axis.pad_begin + axis.pad_end;
  return (input - 1) * axis.stride + reach + (output_padding - padding);
}

// Reads kernel_shape, strides, dilations, pads, auto_pad and ceil_mode. `weight_kernel` is the kernel's shape as the
// weights have it; empty for poolings, where the attribute kernel_shape is required. Throws InvalidModel when an
// attribute has the wrong length, a value that is not positive (pads: may be anything) or is absurdly large.
Window read_window(const AttributeSet& attributes, size_t spatial_rank, std::span<const int64_t> weight_kernel = {});

// Fills input, output and, under auto_pad, the pads. Throws TypeMismatch when the window does not fit.
void resolve_window(Window& window, std::span<const int64_t> spatial);

// The same for a transposed convolution over an input of extents `spatial`; reads output_padding and output_shape.
// In the result `output` is the extent that is read and `input` the larger one that is written.
void transposed_window(Window& window, const AttributeSet& attributes, std::span<const int64_t> spatial);
struct TransposedExtents {
  IntegerList output_padding, output_shape;  // output_shape: empty, or spatial extents
};
TransposedExtents read_transposed_extents(const AttributeSet& attributes, size_t spatial_rank);

// Of the gradient of a convolution by its weights, for inputs of extents `x` and results of extents `dy`: the kernel is as large as pads,
// strides and dilations leave. Throws TypeMismatch when the windows do not fit.
Window weight_gradient_window(const AttributeSet& attributes, std::span<const int64_t> x, std::span<const int64_t> dy);
template <class Extent>
Extent weight_gradient_kernel(const WindowAxis& axis, Extent x, Extent dy) {
  return floor_div(x - (dy - 1) * axis.stride - 1 + (axis.pad_begin + axis.pad_end), axis.dilation) + 1;
}

// The dimensions after batch and channels; throws TypeMismatch when there are none.
std::span<const int64_t> spatial_dims(const Tensor& tensor);

}  // namespace anfora::kernels
