// Several pixels of a narrow convolution as channels of a wide one.
//
// A convolution computes its output channels side by side in vector registers. One that has few of them, as at the end of a decoder, leaves most
// of each register empty:
//
//     y[p, o] = sum over t, c of x[s p + d t, c] w[o, t, c]            s: stride, d: dilation, T taps, along the last spatial axis
//
// P neighbouring pixels of it are as many channels each: y'[q, (i, o)] = y[P q + i, o] is the same memory where channels lie last, and the
// convolution by windows of all that these pixels read, P s apart:
//
//     w'[(i, o), s i + d t, c] = w[o, t, c], and 0 elsewhere           P = 4, T = 3, s = 1:   w w w . . .
//                                                                                            . w w w . .
//                                                                                            . . w w w .
//                                                                                            . . . w w w
//
// The products by 0 are the price: P is chosen such that, registers counted as full, the least is computed a pixel. Since 0 times infinity is no
// 0, and sums are taken in another order, it is a `real` rewrite. One walk over the module.
#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "ir/order.h"
#include "ir/queries.h"
#include "kernels/reference/window.h"
#include "passes/pass.h"

namespace anfora::passes {

extern const Pass kPixels;

namespace {

using namespace ir;

// Blocks of pixels that are worth the reading of more weights.
constexpr int64_t kFewestBlocks = 64;
// What is computed must become less by a quarter; among counts of pixels that come out alike, the largest is taken.
constexpr double kLeastGain = 0.75, kAlike = 1.05;

struct NarrowConvolution {
  Tensor weights;          // [outputs, inputs, spatial…]
  kernels::Window window;  // without extents
  int64_t width, lines;    // pixels of the last axis; how many such lines, as far as it is known

  int64_t outputs() const { return weights.dim(0); }
  const kernels::WindowAxis& columns() const { return window.axes.back(); }
  // Of several pixels as one.
  kernels::WindowAxis columns_of(int64_t pixels) const {
    kernels::WindowAxis wide = columns();
    wide.kernel = (pixels - 1) * wide.stride + wide.reach();
    wide.stride *= pixels;
    wide.dilation = 1;
    return wide;
  }
};

enum Input : size_t { kImage, kWeights, kBias, kAddend };

std::optional<NarrowConvolution> describe(const Apply& node) {
  const AttributeSet& attributes = node.attributes();
  if (!node.is("LoweredConv") || node.num_inputs() > kAddend + 1 || attributes.get_int("channels_last", 0) == 0) return std::nullopt;
  if (attributes.get_int("group", 1) != 1 || attributes.get_string("auto_pad", "NOTSET") != "NOTSET") return std::nullopt;
  const Tensor* weights = constant_tensor(node.input(kWeights));
  if (!weights || weights->dtype() != DType::F32 || weights->size() == 0) return std::nullopt;
  if (node.has_input(kBias) && !constant_tensor(node.input(kBias))) return std::nullopt;
  const int64_t width = extent_of(&node, -2);
  if (width < 2) return std::nullopt;
  int64_t lines = 1;
  for (int axis = 0; axis < rank_of(&node) - 2; ++axis) lines *= std::max<int64_t>(extent_of(&node, axis), 1);
  const Shape& shape = weights->shape();
  return NarrowConvolution{*weights, kernels::read_window(attributes, shape.size() - 2, std::span(shape).subspan(2)), width, lines};
}

// How many pixels become one; 1 where that does not pay.
int64_t pixels_at_once(const NarrowConvolution& f, int64_t lanes) {
  const auto cost = [&](int64_t pixels, int64_t taps) {
    return static_cast<double>(kernels::ceil_div(f.outputs() * pixels, lanes) * lanes * taps) / static_cast<double>(pixels);
  };
  int64_t best = 1;
  double least = kLeastGain * cost(1, f.columns().kernel);
  for (int64_t pixels = 2; pixels * f.outputs() <= lanes; ++pixels) {
    if (f.width % pixels != 0 || f.lines * (f.width / pixels) < kFewestBlocks) continue;
    const double now = cost(pixels, f.columns_of(pixels).kernel);
    if (now > (best == 1 ? 1 : kAlike) * least) continue;
    best = pixels;
    least = std::min(least, now);
  }
  return best;
}

Tensor widened_weights(const NarrowConvolution& f, int64_t pixels) {
  const kernels::WindowAxis& taps = f.columns();
  const int64_t lines = f.weights.size() / taps.kernel, reach = f.columns_of(pixels).kernel;
  Shape shape = f.weights.shape();
  shape.front() *= pixels;
  shape.back() = reach;
  Tensor wide = Tensor::zeros(DType::F32, shape);
  const float* from = f.weights.data<float>().data();
  float* to = wide.data<float>().data();
  for (int64_t i = 0; i < pixels; ++i) {
    for (int64_t line = 0; line < lines; ++line, to += reach) {
      for (int64_t t = 0; t < taps.kernel; ++t) to[i * taps.stride + t * taps.dilation] = from[line * taps.kernel + t];
    }
  }
  return wide;
}

Tensor repeated(const Tensor& bias, int64_t times) {
  Tensor result = Tensor::allocate(DType::F32, Shape{bias.size() * times});
  const auto from = bias.data<float>();
  for (int64_t i = 0; i < times; ++i) std::ranges::copy(from, result.data<float>().data() + i * bias.size());
  return result;
}

class PixelFolding {
 public:
  explicit PixelFolding(PassContext& context) : context_(context), module_(context.module) {}

  size_t run() {
    size_t changes = 0;
    const ModuleOrder order = topological_order(module_);
    for (const GraphOrder& graph : order.graphs) {
      for (Apply* node : graph.nodes) {
        if (node->primitive() != Primitive::Operation) continue;
        const std::optional<NarrowConvolution> narrow = describe(*node);
        if (!narrow || !context_.has_fuel()) continue;
        const int64_t pixels = pixels_at_once(*narrow, context_.options.vector_lanes);
        if (pixels == 1) continue;
        rebuild(*node, *narrow, pixels);
        ++changes;
      }
    }
    return changes;
  }

 private:
  // An image of the result's size, its last two axes as these.
  Apply* with_axes(Node* image, int64_t width, int64_t channels, const Apply& old) {
    std::vector<int64_t> shape(static_cast<size_t>(rank_of(&old)), 0);  // 0: as it is
    shape[shape.size() - 2] = width;
    shape.back() = channels;
    Node* inputs[] = {image, module_.constant(Tensor::vector<int64_t>(shape))};
    return context_.make(old.graph(), module_.context().get_operator("Reshape"), inputs, {}, old.location());
  }

  void rebuild(Apply& node, const NarrowConvolution& f, int64_t pixels) {
    std::vector<Node*> inputs;
    for (size_t i = 0; i < node.num_inputs(); ++i) inputs.push_back(node.input(i));
    inputs[kWeights] = module_.constant(widened_weights(f, pixels));
    if (node.has_input(kBias)) inputs[kBias] = module_.constant(repeated(*constant_tensor(node.input(kBias)), pixels));
    if (node.has_input(kAddend)) inputs[kAddend] = with_axes(node.input(kAddend), f.width / pixels, f.outputs() * pixels, node);
    kernels::Window wide_window = f.window;
    wide_window.axes.back() = f.columns_of(pixels);
    const auto of_axes = [&](int64_t kernels::WindowAxis::* number) {
      std::vector<int64_t> numbers;
      for (const kernels::WindowAxis& axis : wide_window.axes) numbers.push_back(axis.*number);
      return numbers;
    };
    const AttributeSet attributes = node.attributes()
                                        .with("kernel_shape", of_axes(&kernels::WindowAxis::kernel))
                                        .with("strides", of_axes(&kernels::WindowAxis::stride))
                                        .with("dilations", of_axes(&kernels::WindowAxis::dilation));
    context_.applied(kPixels.name, "pixels-as-channels", node);
    Apply* wide = context_.make(node.graph(), node.op(), inputs, attributes, node.location(), node.name());
    module_.replace(&node, with_axes(wide, f.width, f.outputs(), node));
    module_.erase(&node);  // groups are made of values that nobody else reads
  }

  PassContext& context_;
  Module& module_;
};

size_t run_pixels(PassContext& context) {
  return context.options.math == rewrite::Promise::Real ? PixelFolding(context).run() : 0;
}

}  // namespace

const Pass kPixels{"pixels", "pixels as channels", "convolutions of few channels compute several pixels at once", run_pixels};

}  // namespace anfora::passes
