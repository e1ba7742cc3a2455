// For ONNX Runtime (opt --target onnxruntime): operators of its own (domain com.microsoft), where it runs them faster than what
// they stand for, or has them in operator sets in which ONNX has nothing of the kind:
//
//     softmax(Q·Kᵀ·s) V, by heads  →  Attention (since operator set 23)  →  MultiHeadAttention
//     x · (1 + erf(x / √2)) / 2    →  Gelu (since 20)                     →  com.microsoft::Gelu
//
// The rules that find composites ask whether what they make can be written (PassOptions::has_operator). For this target the
// answer is also yes for what has an operator of ONNX Runtime's. Then, when nothing else is left to do, the composites become those
// operators: rules/onnxruntime.rules, and onnxruntime-attention.rules where there is no Attention. This is the other direction of the pass
// `expand`.
#include "passes/pass.h"

namespace anfora::passes {

extern const Pass kOnnxRuntime, kAttention;

namespace {

using namespace ir;

// An Attention that the operator set to be written does not have. Where it has them, ONNX Runtime runs them about as fast.
bool lacks_attention(const PassContext& context) {
  const auto& has_operator = context.options.has_operator;
  if (!has_operator) return false;
  for (const Graph* graph : context.module.graphs()) {
    for (const Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
      if (node->is("Attention") && !has_operator(*node)) return true;
    }
  }
  return false;
}

std::shared_ptr<const rewrite::RuleSet> with_attention() {
  static const auto rules = built_in_rules({kOnnxRuntime.name, kOnnxRuntimeAttention});
  return rules;
}

size_t run_onnxruntime(PassContext& context) {
  static const auto without_attention = built_in_rules({kOnnxRuntime.name});
  const bool is_lacking = lacks_attention(context);
  const rewrite::RuleSet& rules = is_lacking || !context.options.has_operator ? *with_attention() : *without_attention;
  rewrite::RewriteOptions options = context.rewriting();
  options.has_operator = nullptr;
  size_t changes = rewrite::apply_rules(rules, options, context.inference, context.remarks, kOnnxRuntime.name);
  // What did not become that after all.
  if (is_lacking) changes += kAttention.run(context);
  return changes;
}

}  // namespace

bool has_onnxruntime_operator(const Apply& node) {
  Module& module = node.graph()->module();
  analysis::Inference inference(module);
  return rewrite::applies(*with_attention(), node, inference);
}

const Pass kOnnxRuntime{"onnxruntime", "operators of ONNX Runtime", "fuse into com.microsoft operators",
                        run_onnxruntime};

}  // namespace anfora::passes
