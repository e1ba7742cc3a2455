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
  int64_t count() const { return batch_ * window_.outputs(); }
  // Whether rows of A are those of x.
  bool is_pointwise() const;
  // Row `i` of x as integers, where padding has that value.
  void pack(const IntegerOperands& integers, const std::byte* x, int64_t i, int32_t padding, void* to) const;

  // Rows [first, first + count) of x to `to`, where padding is 0.
  void gather(const float* x, int64_t first, int64_t count, float* to, int64_t stride) const;

  // How windows of one or two axes lie in an image: each as lines of `steps` elements side by side. Nothing for other windows. Taps that are apart are
  // lines of a pixel each, where windows are of one line of the image.
  struct Lines {
    int64_t steps = 0;             // elements of a line of a window
    int64_t apart = 0;             // elements from one to the next
    int64_t pixel = 0;             // elements from a window to the next one of its row of y
    int64_t width = 0;             // elements from a window's first to its last one in a line of the image, and one more
    int64_t pitch = 0;             // elements of a line of the image
    int64_t image_lines = 0;       // of an image
    int64_t rows = 0, step = 0;    // of an image of y; lines of x from a row of y to the next
    int64_t reach = 0;             // lines that a window goes over
    bool is_extended = false;      // the image is one with its padding

    // Places of a row of y whose windows are read of x itself, as they are of one line and see no padding; and the same offsets of x: where the first window begins, from a
    // line and from an image to the next one.
    int64_t first_inside = 0, end_inside = 0;
    int64_t start_of_x = 0, pitch_of_x = 0, image_of_x = 0;

    // The first line that row `row` of y sees, of all images.
    int64_t first_line(int64_t row) const { return row / rows * image_lines + row % rows * step; }
    // Where the window at a place of row `row` of y begins, and where it ends.
    int64_t begin(int64_t row, int64_t place) const { return first_line(row) * pitch + place * pixel; }
    int64_t end(int64_t row, int64_t place) const { return begin(row, place) + (reach - 1) * pitch + width; }
    int64_t begin_of_x(int64_t row, int64_t place) const { return row / rows * image_of_x + row % rows * step * pitch_of_x + start_of_x + place * pixel; }
    // Where step k of it begins, a line's first one.
    int64_t offset(int64_t row, int64_t place, int64_t k) const { return begin(row, place) + k / steps * apart; }
    bool is_inside(int64_t place, int64_t count) const { return place >= first_inside && place + count <= end_inside; }
  };
  std::optional<Lines> lines() const;
  // The product whose rows of A are the image itself, beginning a stride apart: of pointwise windows, and of those of one axis whose taps follow each other, without
  // padding. Steps of B are [taps, channels]. Empty for others.
  std::optional<StridedProduct> product_in_place(const InputShapes& shapes) const;
  // Elements [first, first + count) of all images with their padding, which is 0: of whole pixels.
  void extend(const float* x, int64_t first, int64_t count, float* to) const;

  // Parts of the image with all that windows see of its padding; 0 where they do not overlap.
  int64_t extended_parts() const;
  // That image, and rows [begin, end) of it.
  void extend(const IntegerOperands& integers, const std::byte* x, int32_t padding, void* to) const;
  void pack_extended(const IntegerOperands& integers, const void* extended, int64_t begin, int64_t end, std::byte* to, int64_t row_bytes) const;

 private:
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
