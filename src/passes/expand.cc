// Operators of ONNX Runtime become what they mean: the functions of src/dialects/microsoft/*.ir, which
// rewrite/instantiate.h inserts. What a function does not support stays as it is, with the reason as a remark.
#include <optional>

#include "dialects/microsoft/library.h"
#include "ir/order.h"
#include "ir/queries.h"
#include "passes/insert_function.h"

namespace anfora::passes {

extern const Pass kExpand;

using namespace ir;
using rewrite::Rewriter;

namespace {

// Blocks of channels -------------------------------------------------------------------------------------------------
// Which size they had depends on the CPU that the file was saved on. Shapes tell in most models: the channels that a
// ReorderOutput keeps are filled up to the next multiple of it. Where they do not, it is that of the CPU at hand, which
// is what ONNX Runtime takes, too.

constexpr std::string_view kBlockedDomain = "com.microsoft.nchwc";

int64_t rounded_up(int64_t n, int64_t block) { return (n + block - 1) / block * block; }

int64_t block_of_this_cpu() { return __builtin_cpu_supports("avx512f") ? 16 : 8; }

// What the channels of one operator's weights say, 0: nothing.
int64_t block_by(const Apply& node) {
  if (node.primitive() != Primitive::Operation || node.op().domain != kBlockedDomain) return 0;
  if (node.op().name == "Conv") {
    const int64_t outputs = node.num_inputs() > 1 ? extent_of(node.input(1), 0) : -1;
    return outputs > 0 && outputs % 16 != 0 ? 8 : 0;
  }
  if (node.op().name != "ReorderOutput" || node.num_inputs() != 1) return 0;
  const int64_t kept = node.attributes().get_int("channels", 0), all = extent_of(node.input(0), 1);
  if (kept < 1 || all < 1 || rounded_up(kept, 8) == rounded_up(kept, 16)) return 0;
  return all == rounded_up(kept, 8) ? 8 : all == rounded_up(kept, 16) ? 16 : 0;
}

// All blocks of a model are of one size.
int64_t block_of(const ModuleOrder& order) {
  for (const GraphOrder& graph : order.graphs) {
    for (const Apply* node : graph.nodes) {
      if (int64_t block = block_by(*node)) return block;
    }
  }
  return block_of_this_cpu();
}

// QLinearConcat ------------------------------------------------------------------------------------------------------
// Its operands are any number of tensors, each with its scale and zero point, for which a function has no parameters. It
// becomes a Concat of what each DequantizeLinear gives, quantized: operators that have a function.

Node* without_quantized_concat(Rewriter& rewriter, Apply& root) {
  if (!is_typed(root) || root.num_inputs() < 5 || root.num_inputs() % 3 != 2) return nullptr;
  std::vector<Node*> parts;
  for (size_t i = 2; i < root.num_inputs(); i += 3) {
    parts.push_back(rewriter.apply("com.microsoft::DequantizeLinear", {root.input(i), root.input(i + 1), root.input(i + 2)}));
  }
  Node* whole = rewriter.apply(rewriter.context().get_operator("Concat"), parts, {{"axis", root.attributes().require_int("axis")}});
  return rewriter.apply("com.microsoft::QuantizeLinear", {whole, root.input(0), root.input(1)});
}

constexpr rewrite::Rule kByHand[] = {
    {"quantized-concat", "com.microsoft::QLinearConcat", "QLinearConcat(x…) = quantized(Concat(dequantized x…))",
     rewrite::Promise::Real, without_quantized_concat},
};

// The pass -----------------------------------------------------------------------------------------------------------

// Nothing else says what these operators mean, so that it is no question of rounding whether they are expanded.
size_t run_expand(PassContext& context) {
  const rewrite::RewriteOptions options{.fuel = context.options.fuel, .define_roots = true};
  const size_t by_hand = rewrite::apply_rules(kByHand, options, context.inference, context.remarks, kExpand.name);
  int64_t block = 0;  // once it is needed
  auto attributes = [&](const Apply& node) -> std::optional<AttributeSet> {
    if (!node.op().known || !node.op().domain.starts_with("com.microsoft")) return std::nullopt;
    if (node.op().domain != kBlockedDomain) return node.attributes();
    if (block == 0) block = block_of(*shared_order(context.module));
    return node.attributes().with("block", block);
  };
  return by_hand + insert_functions(context, {kExpand.name, {}, microsoft::library_files(), attributes});
}

}  // namespace

const Pass kExpand{"expand", "operators of ONNX Runtime", "expand com.microsoft operators into ONNX operators",
                   run_expand};

}  // namespace anfora::passes
