// Kernels of gradients: rules/gradient-kernels.rules, for programs that run.
#include "passes/pass.h"
#include "rewrite/rule_set.h"

namespace anfora::passes {

extern const Pass kGradientKernels;

namespace {

size_t run_gradient_kernels(PassContext& context) {
  static const auto rules = built_in_rules({"gradient-kernels.rules"});
  return rewrite::apply_rules(*rules, context.rewriting(), context.inference, context.remarks, kGradientKernels.name);
}

}  // namespace

const Pass kGradientKernels{"gradient-kernels", "kernels of gradients", "what differentiation makes, as operators with kernels",
                            run_gradient_kernels};

}  // namespace anfora::passes
