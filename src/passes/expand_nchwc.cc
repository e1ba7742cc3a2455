// The blocked convolutions and poolings of ONNX Runtime (domain com.microsoft.nchwc) in those of ONNX. A blocked image
// becomes a plain one whose channels are filled up to whole blocks, so that shapes stay as the file has them:
//
//     ReorderInput(x)        Pad(x), channels up to a multiple of the block
//     Conv(x, w, b, z)       f(Conv(x, w′, b) + z), where w′ is w with its blocks undone; constant where w is
//     ReorderOutput(x)       Slice(x), the first channels
//
// Weights are stored in blocks of B output channels: [O/B, I, h, w, B] where the input has fewer channels than a block, or
// one for each output (depthwise); else in blocks of input channels as well: [O/B, I/B, h, w, B, B].
//
// Which B it was depends on the CPU that the file was saved on. Shapes tell in most models: the channels that a
// ReorderOutput keeps are filled up to the next multiple of B. Where they do not, it is that of the CPU at hand, which is
// what ONNX Runtime takes, too.
#include <algorithm>

#include "passes/expand.h"

namespace anfora::passes {
namespace {

using namespace ir;
using rewrite::Promise;
using rewrite::Rewriter;
using rewrite::Rule;

constexpr std::string_view kDomain = "com.microsoft.nchwc";

int64_t rounded_up(int64_t n, int64_t block) { return (n + block - 1) / block * block; }

int64_t block_of_this_cpu() { return __builtin_cpu_supports("avx512f") ? 16 : 8; }

// What the channels of one operator's weights say, 0: nothing.
int64_t block_by(const Apply& node) {
  if (node.primitive() != Primitive::Operation || node.op().domain != kDomain) return 0;
  if (node.op().name == "Conv") {
    const int64_t outputs = node.num_inputs() > 1 ? extent_of(node.input(1), 0) : -1;
    return outputs > 0 && outputs % 16 != 0 ? 8 : 0;
  }
  if (node.op().name != "ReorderOutput" || node.num_inputs() != 1) return 0;
  const int64_t kept = node.attributes().get_int("channels", 0), all = extent_of(node.input(0), 1);
  if (kept < 1 || all < 1 || rounded_up(kept, 8) == rounded_up(kept, 16)) return 0;
  return all == rounded_up(kept, 8) ? 8 : all == rounded_up(kept, 16) ? 16 : 0;
}

// All blocks of a model are of one size. The search ends at the first operator that tells, mostly one of the first.
int64_t block_of(const Apply& root) {
  for (const Apply* node = root.graph()->first_node(); node; node = node->next_in_graph()) {
    if (int64_t block = block_by(*node)) return block;
  }
  return block_of_this_cpu();
}

Node* permuted_axes(Expansion& e, Node* x, std::vector<int64_t> perm) {
  return e.apply("Transpose", {x}, {{"perm", std::move(perm)}});
}

Node* reorder_input(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  Node* x = e.input(0);
  if (!e.is_typed() || rank_of(x) != 4) return nullptr;
  if (e.integer("channels_last")) x = permuted_axes(e, x, {0, 3, 1, 2});
  const int64_t channels = extent_of(x, 1);
  if (channels < 0) return nullptr;
  const int64_t missing = rounded_up(channels, block_of(root)) - channels;
  return missing == 0 ? x : e.apply("Pad", {x, e.integers({0, 0, 0, 0, 0, missing, 0, 0})});
}

Node* reorder_output(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  Node* x = e.input(0);
  if (!e.is_typed() || rank_of(x) != 4) return nullptr;
  const int64_t channels = e.integer("channels");
  if (extent_of(x, 1) != channels) x = e.apply("Slice", {x, e.integers({0}), e.integers({channels}), e.integers({1})});
  return e.integer("channels_last") ? permuted_axes(e, x, {0, 2, 3, 1}) : x;
}

// Null: the shapes are those of no weights in blocks.
Node* unblocked(Expansion& e, Node* weights, int64_t block) {
  const int64_t outputs = extent_of(weights, 0), inputs = extent_of(weights, 1);
  const int64_t height = extent_of(weights, 2), width = extent_of(weights, 3);
  if (std::min({outputs, inputs, height, width}) < 1 || outputs % block != 0) return nullptr;
  Node* plain;
  if (inputs % block == 0) {
    plain = e.apply("Reshape", {weights, e.integers({outputs / block, inputs / block, height, width, block, block})});
    plain = permuted_axes(e, plain, {0, 5, 1, 4, 2, 3});
  } else if (inputs < block) {
    plain = e.apply("Reshape", {weights, e.integers({outputs / block, inputs, height, width, block})});
    plain = permuted_axes(e, plain, {0, 4, 1, 2, 3});
  } else {
    return nullptr;
  }
  return e.apply("Reshape", {plain, e.integers({outputs, inputs, height, width})});
}

Node* blocked_convolution(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  if (!e.is_typed() || rank_of(e.input(1)) != 4) return nullptr;
  Node* weights = unblocked(e, e.input(1), block_of(root));
  return weights ? e.result({e.fused_convolution(weights)}) : nullptr;
}

// The same operator of ONNX.
Node* plain_operator(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  return e.is_typed() ? e.apply(root.op().name, {e.input(0)}, root.attributes()) : nullptr;
}

Node* upsample(Rewriter& rewriter, Apply& root) {
  Expansion e(rewriter, root);
  if (!e.is_typed()) return nullptr;
  const std::vector<int64_t> factors = root.attributes().get_ints("scales", {1, 1, 1, 1});
  Node* scales = rewriter.constant(Tensor::vector<float>(std::vector<float>(factors.begin(), factors.end())));
  AttributeSet attributes{{"mode", root.attributes().get_string("mode", "nearest")},
                          {"nearest_mode", "floor"},
                          {"coordinate_transformation_mode",
                           root.attributes().get_string("coordinate_transformation_mode", "asymmetric")}};
  return e.apply("Resize", {e.input(0), nullptr, scales}, attributes);
}

constexpr Rule kRules[] = {
    {"expand-blocked-input", "com.microsoft.nchwc::ReorderInput", "ReorderInput(x) = Pad(x), to whole blocks",
     Promise::Real, reorder_input},
    {"expand-blocked-output", "com.microsoft.nchwc::ReorderOutput", "ReorderOutput(x) = Slice(x), the first channels",
     Promise::Real, reorder_output},
    {"expand-blocked-convolution", "com.microsoft.nchwc::Conv", "Conv(x, w, b, z) = f(Conv(x, w without blocks, b) + z)",
     Promise::Real, blocked_convolution},
    {"expand-blocked-max-pool", "com.microsoft.nchwc::MaxPool", "MaxPool is ONNX's", Promise::Real, plain_operator},
    {"expand-blocked-average-pool", "com.microsoft.nchwc::AveragePool", "AveragePool is ONNX's", Promise::Real,
     plain_operator},
    {"expand-blocked-global-max-pool", "com.microsoft.nchwc::GlobalMaxPool", "GlobalMaxPool is ONNX's", Promise::Real,
     plain_operator},
    {"expand-blocked-global-average-pool", "com.microsoft.nchwc::GlobalAveragePool", "GlobalAveragePool is ONNX's",
     Promise::Real, plain_operator},
    {"expand-blocked-upsample", "com.microsoft.nchwc::Upsample", "Upsample(x) = Resize(x)", Promise::Real, upsample},
};

}  // namespace

std::span<const Rule> nchwc_expansions() { return kRules; }

}  // namespace anfora::passes
