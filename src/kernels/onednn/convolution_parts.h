// A convolution in parts, which are ranges of a loop: any thread may take them, as it does those of our own kernels. The library divides a
// primitive among threads once and for all, and waits for the latest one.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "kernels/onednn/primitive.h"

namespace anfora::kernels::onednn {

// The operands in the library's terms: activations as [batch, channels, spatial…], weights as [groups,] out, in, kernel.
struct ConvolutionShape {
  Shape x, y, w;
  memory::dims strides, dilations, pad_begin, pad_end;
  int64_t groups = 1;

  // An axis of one element, the innermost one.
  void add_axis() {
    for (Shape* shape : {&x, &y, &w}) shape->push_back(1);
    strides.push_back(1);
    for (memory::dims* list : {&dilations, &pad_begin, &pad_end}) list->push_back(0);
  }
  // Where each element of the result is computed from the one in its place: images of a single column.
  ConvolutionShape with_pixels_as_rows() const;
};

// Rows of one image, along its outermost axis: those of the result, and those of the input that they are computed from.
struct ConvolutionPart {
  int64_t image = 0;
  int64_t first_input = 0, first_output = 0;
  struct Extents {
    int64_t inputs = 0, outputs = 0, pad_begin = 0, pad_end = 0;
    bool operator==(const Extents&) const = default;
  } extents;

  // Of a convolution that computes this part alone.
  ConvolutionShape shape_in(ConvolutionShape whole) const;
};

// In order. Empty where so many threads do better with the whole: parts would have little work each, or would read all weights for a few
// pixels.
std::vector<ConvolutionPart> parts_of(const ConvolutionShape& whole, int64_t threads);

// Parts of a convolution from channels-last images to channels-last images, by primitives of one thread each.
class ConvolutionOfParts : public ShapedKernel::Instance {
 public:
  ConvolutionOfParts(const ConvolutionShape& whole, DType dtype, Shape result);

  void set_weights(memory weights) { weights_ = std::move(weights); }
  void set_bias(const memory::desc& desc) { bias_ = handle(desc); }
  void set_addend() { has_addend_ = true; }
  // A primitive for parts of those extents.
  bool has_primitive(const ConvolutionPart::Extents& extents) const { return find(extents) != nullptr; }
  void add_primitive(const ConvolutionPart::Extents& extents, const dnnl::convolution_forward::primitive_desc& pd);
  // After all else.
  void add_part(const ConvolutionPart& part);

  void execute(KernelContext& context) override;

 private:
  struct Primitive {
    ConvolutionPart::Extents extents;
    dnnl::primitive primitive;
    memory::desc x, y, scratchpad;
  };
  struct Part {
    const Primitive* primitive;
    int64_t first_of_x, first_of_y;  // elements
    memory x, y, addend, scratchpad;
    std::vector<dnnl_exec_arg_t> arguments;
  };
  const Primitive* find(const ConvolutionPart::Extents& extents) const;

  DType dtype_;
  Shape result_;
  int64_t inputs_, outputs_;        // rows of an image
  int64_t input_row_, output_row_;  // elements of a row
  std::deque<Primitive> primitives_;
  std::vector<Part> parts_;
  memory weights_;
  std::optional<memory> bias_;
  bool has_addend_ = false;
  size_t scratchpad_bytes_ = 0;
};

}  // namespace anfora::kernels::onednn
