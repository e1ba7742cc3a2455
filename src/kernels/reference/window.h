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

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <span>

#include "anfora/tensor.h"
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

// Reads kernel_shape, strides, dilations, pads, auto_pad and ceil_mode. `weight_kernel` is the kernel's shape as the
// weights have it; empty for poolings, where the attribute kernel_shape is required. Throws InvalidModel when an
// attribute has the wrong length, a value that is not positive (pads: may be anything) or is absurdly large.
Window read_window(const AttributeSet& attributes, size_t spatial_rank, std::span<const int64_t> weight_kernel = {});

// Fills input, output and, under auto_pad, the pads. Throws TypeMismatch when the window does not fit.
void resolve_window(Window& window, std::span<const int64_t> spatial);

// The same for a transposed convolution over an input of extents `spatial`; reads output_padding and output_shape.
// In the result `output` is the extent that is read and `input` the larger one that is written.
void transposed_window(Window& window, const AttributeSet& attributes, std::span<const int64_t> spatial);

// The dimensions after batch and channels; throws TypeMismatch when there are none.
std::span<const int64_t> spatial_dims(const Tensor& tensor);

}  // namespace anfora::kernels
