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

  // Inputs 2 and 3 are added: a row, and what has the shape of the result.
  StridedProduct product(const InputShapes& shapes) const;
  // Whether rows of A are those of x.
  bool is_pointwise() const;
  // Row `i` of x, where padding has that value.
  void pack(const IntegerOperands& integers, const std::byte* x, int64_t i, int32_t padding, void* to) const;

  // Parts of the image with all that windows see of its padding; 0 where they do not overlap.
  int64_t extended_parts() const;
  // That image, and rows [begin, end) of it.
  void extend(const IntegerOperands& integers, const std::byte* x, int32_t padding, void* to) const;
  void pack_extended(const IntegerOperands& integers, const void* extended, int64_t begin, int64_t end, std::byte* to, int64_t row_bytes) const;

 private:
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
