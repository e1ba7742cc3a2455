// A convolution as a product: a row of A is what a window sees of [batch, spatial…, channels], in the order of the window's taps and
// then of the channels. It is gathered as the product needs it.
//
//     x[n, 2·i + k − 1, c]     i is the row's place, k a tap, c a channel
//
// Where windows overlap, the image becomes parts of words once, with its padding, and rows are copied of it: a part would be computed again for
// each window otherwise.
//
// The weights [out, channels, taps…] are then the matrix [taps… · channels, out].
#pragma once

#include <optional>

#include "kernels/generated/integer_operands.h"
#include "kernels/generated/window_taps.h"
#include "kernels/input_shapes.h"
#include "kernels/reference/window.h"
#include "kernels/strided_product.h"

namespace anfora::kernels::generated {

class ConvolutionRows {
 public:
  // Nothing where the shapes do not fit, which the reference kernel has words for, or there is nothing to compute.
  static std::optional<ConvolutionRows> resolve(const AttributeSet& attributes, const InputShapes& shapes);
  // Whether the operands are those of a convolution in one group with its channels last.
  static bool is_product(const AttributeSet& attributes, const Shape& weights);
  // Sizes of images are not known yet.
  static Window read(const AttributeSet& attributes, const Shape& weights) { return read_window(attributes, weights.size() - 2, std::span(weights).subspan(2)); }
  // Whether rows of A are those of x.
  bool is_pointwise() const;

  // Inputs 2 and 3 are added: a row, and what has the shape of the result.
  StridedProduct product(const InputShapes& shapes) const;
  int64_t count() const { return batch_ * window_.outputs(); }
  // Row `i` of x as integers, where padding has that value.
  void pack(const IntegerOperands& integers, const std::byte* x, int64_t i, int32_t padding, void* to) const;

  // Rows [first, first + count) of x to `to`, where padding is 0.
  void gather(const float* x, int64_t first, int64_t count, float* to, int64_t stride) const;

  // Nothing where windows have more than two axes.
  std::optional<WindowTaps> taps() const { return WindowTaps::of(window_, channels_); }
  // The product whose rows of A are the image itself, beginning a stride apart: of pointwise windows, and of those of one axis whose taps follow each other, without
  // padding. Steps of B are [taps, channels]. Empty for others.
  std::optional<StridedProduct> product_in_place(const InputShapes& shapes) const;

  // Parts of the image with all that windows see of its padding; 0 where they do not overlap.
  int64_t extended_parts() const;
  // That image, and rows [begin, end) of it.
  void extend(const IntegerOperands& integers, const std::byte* x, int32_t padding, void* to) const;
  void pack_extended(const IntegerOperands& integers, const void* extended, int64_t begin, int64_t end, std::byte* to, int64_t row_bytes) const;

 private:
  void gather_pixels(const float* x, int64_t first, int64_t count, float* to, int64_t stride) const;  // of one tap
  // Row `i` in runs: fill(count) for elements of padding, copy(from, count) for those of the input.
  template <class Fill, class Copy>
  void walk(int64_t i, const Fill& fill, const Copy& copy) const;
  // The same of pixels [first, end) of a line of the images with their padding.
  template <class Fill, class Copy>
  void walk_line(int64_t line, int64_t first, int64_t end, const Fill& fill, const Copy& copy) const;
  // Pixels of the last axis.
  int64_t pixels_of_line() const { return extent(window_.axes.back()); }
  static int64_t extent(const WindowAxis& axis) { return axis.start(axis.output - 1) - axis.start(0) + axis.reach(); }

  int64_t batch_ = 0, channels_ = 0, columns_ = 0;
  Window window_;
};

// The weights as bytes[taps… · channels, out], and back.
Tensor weights_as_matrix(const Tensor& weights);
Tensor weights_of_matrix(const Tensor& matrix, const Shape& shape);

}  // namespace anfora::kernels::generated
