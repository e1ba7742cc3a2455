#include "pipeline/expand.h"

#include "pipeline/pipeline.h"

namespace anfora::pipeline {

namespace {

bool has_application(const ir::Module& module, bool (*is_meant)(const ir::Apply&)) {
  for (const ir::Graph* graph : module.graphs()) {
    for (const ir::Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
      if (is_meant(*node)) return true;
    }
  }
  return false;
}

}  // namespace

bool has_expansions(const ir::Module& module) {
  auto is_of_onnxruntime = [](const ir::Apply& node) {
    return node.primitive() == ir::Primitive::Operation && node.op().known && node.op().domain.starts_with("com.microsoft");
  };
  return has_application(module, is_of_onnxruntime) || has_custom_gradients(module);
}

size_t expand(ir::Module& module) {
  const size_t changes = has_expansions(module) ? run_pass("expand", module) : 0;
  return changes + (has_custom_gradients(module) ? forget_gradients(module) : 0);
}

bool has_custom_gradients(const ir::Module& module) {
  return has_application(module, [](const ir::Apply& node) { return node.is("StopGradient") || node.is("CustomGradient"); });
}

size_t forget_gradients(ir::Module& module) {
  return run_pass("simplify", module, {.rules = passes::rules_after_differentiation()});
}

}  // namespace anfora::pipeline
