// Operators without a gradient, as what they mean in others: layers as loops over a cell (src/dialects/onnx/*.ir), Einsum as products
// (contraction.cc).
#include <optional>

#include "dialects/onnx/library.h"
#include "ir/order.h"
#include "passes/contraction.h"
#include "passes/insert_function.h"

namespace anfora::passes {

extern const Pass kDecompose;

namespace {

using namespace ir;

constexpr rewrite::Rule kContractions[] = {
    {"einsum-in-products", "Einsum", "Einsum(x…) = products of two at a time", rewrite::Promise::Real, contraction},
};

size_t run_decompose(PassContext& context) {
  const rewrite::RewriteOptions options{.fuel = context.options.fuel, .define_roots = true};
  size_t changes = rewrite::apply_rules(kContractions, options, context.inference, context.remarks, kDecompose.name);
  std::optional<FunctionInserter> functions;  // once they are needed
  const auto order = shared_order(context.module);
  for (const GraphOrder& graph : order->graphs) {
    for (Apply* node : graph.nodes) {
      if (node->primitive() != Primitive::Operation || !node->has_uses() || !lacks_gradient(*node)) continue;
      if (!context.has_fuel()) return changes;
      if (!functions) functions.emplace(context, kDecompose.name, onnx_parts::library_files());
      if (functions->has_function(node->op())) changes += functions->insert(*node, node->op().qualified, node->attributes());
    }
  }
  if (changes > 0) context.inference.run();  // of loops
  return changes;
}

}  // namespace

const Pass kDecompose{"decompose", "operators decomposed", "what has no gradient itself, in operators that have one", run_decompose};

}  // namespace anfora::passes
