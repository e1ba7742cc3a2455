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
#include <vector>

#include "ir/order.h"
#include "ir/queries.h"
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
  Tensor weights;                     // [outputs, inputs, spatial…]
  int64_t outputs, width;             // channels; pixels of the last axis
  int64_t taps, stride, dilation;     // of the last axis
  int64_t lines;                      // of pixels, as far as it is known

  int64_t reach(int64_t pixels) const { return (pixels - 1) * stride + (taps - 1) * dilation + 1; }
};

enum Input : size_t { kImage, kWeights, kBias, kAddend };

// The last of numbers that belong to the spatial axes, 1 where they are not given.
int64_t last_of(const Apply& node, std::string_view attribute) {
  const std::vector<int64_t> numbers = node.attributes().get_ints(attribute);
  return numbers.empty() ? 1 : numbers.back();
}

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
  return NarrowConvolution{.weights = *weights, .outputs = weights->dim(0), .width = width, .taps = weights->dim(weights->rank() - 1),
                           .stride = last_of(node, "strides"), .dilation = last_of(node, "dilations"), .lines = lines};
}

// How many pixels become one; 1 where that does not pay.
int64_t pixels_at_once(const NarrowConvolution& f, int64_t lanes) {
  const auto cost = [&](int64_t pixels, int64_t taps) {
    const int64_t registers = (f.outputs * pixels + lanes - 1) / lanes;
    return static_cast<double>(registers * lanes * taps) / static_cast<double>(pixels);
  };
  int64_t best = 1;
  double least = kLeastGain * cost(1, f.taps);
  for (int64_t pixels = 2; pixels * f.outputs <= lanes; ++pixels) {
    if (f.width % pixels != 0 || f.lines * (f.width / pixels) < kFewestBlocks) continue;
    const double now = cost(pixels, f.reach(pixels));
    if (now > (best == 1 ? 1 : kAlike) * least) continue;
    best = pixels;
    least = std::min(least, now);
  }
  return best;
}

Tensor widened_weights(const NarrowConvolution& f, int64_t pixels) {
  const int64_t lines = f.weights.size() / (f.outputs * f.taps), reach = f.reach(pixels);  // of taps, for an output
  Shape shape = f.weights.shape();
  shape.front() *= pixels;
  shape.back() = reach;
  Tensor wide = Tensor::zeros(DType::F32, shape);
  const float* from = f.weights.data<float>().data();
  float* to = wide.data<float>().data();
  for (int64_t i = 0; i < pixels; ++i) {
    for (int64_t line = 0; line < f.outputs * lines; ++line, to += reach) {
      for (int64_t t = 0; t < f.taps; ++t) to[i * f.stride + t * f.dilation] = from[line * f.taps + t];
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

std::vector<int64_t> with_last(const Apply& node, std::string_view attribute, size_t axes, int64_t value) {
  std::vector<int64_t> numbers = node.attributes().get_ints(attribute);
  numbers.resize(axes, 1);
  numbers.back() = value;
  return numbers;
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
  Apply* apply(const Apply& old, std::string_view op, std::span<Node* const> inputs, const AttributeSet& attributes, std::string_view name = {}) {
    Apply* made = module_.apply(old.graph(), module_.context().get_operator(op), inputs, attributes, 1, old.location(), name);
    context_.inference.infer(*made);
    return made;
  }

  // An image of the result's size, its last two axes as these.
  Apply* with_axes(Node* image, int64_t width, int64_t channels, const Apply& old) {
    std::vector<int64_t> shape(static_cast<size_t>(rank_of(&old)), 0);  // 0: as it is
    shape[shape.size() - 2] = width;
    shape.back() = channels;
    Node* inputs[] = {image, module_.constant(Tensor::vector<int64_t>(shape))};
    return apply(old, "Reshape", inputs, {});
  }

  void rebuild(Apply& node, const NarrowConvolution& f, int64_t pixels) {
    std::vector<Node*> inputs;
    for (size_t i = 0; i < node.num_inputs(); ++i) inputs.push_back(node.input(i));
    inputs[kWeights] = module_.constant(widened_weights(f, pixels));
    if (node.has_input(kBias)) inputs[kBias] = module_.constant(repeated(*constant_tensor(node.input(kBias)), pixels));
    if (node.has_input(kAddend)) inputs[kAddend] = with_axes(node.input(kAddend), f.width / pixels, f.outputs * pixels, node);
    const auto axes = static_cast<size_t>(f.weights.rank() - 2);
    const Shape shape = f.weights.shape();
    std::vector<int64_t> kernel(shape.begin() + 2, shape.end());
    kernel.back() = f.reach(pixels);
    const AttributeSet attributes = node.attributes()
                                        .with("kernel_shape", kernel)
                                        .with("strides", with_last(node, "strides", axes, f.stride * pixels))
                                        .with("dilations", with_last(node, "dilations", axes, 1));
    context_.applied(kPixels.name, "pixels-as-channels", node);
    Apply* wide = apply(node, "LoweredConv", inputs, attributes, node.name());
    module_.replace(&node, with_axes(wide, f.width, f.outputs, node));
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
