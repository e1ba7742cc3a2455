// Operators without a gradient, as what they mean in others: layers as loops over a cell (src/dialects/onnx/*.ir), Einsum as products
// (contraction.cc).
#include <optional>

#include "dialects/onnx/library.h"
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
  auto attributes = [](const Apply& node) { return lacks_gradient(node) ? std::optional(node.attributes()) : std::nullopt; };
  changes += insert_functions(context, {kDecompose.name, {}, onnx_parts::library_files(), attributes});
  if (changes > 0) context.inference.run();  // of loops
  return changes;
}

}  // namespace

const Pass kDecompose{"decompose", "operators decomposed", "what has no gradient itself, in operators that have one", run_decompose};

}  // namespace anfora::passes
