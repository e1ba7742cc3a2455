// Passes that are sets of rules: rules/NAME.rules for the pass NAME.
#include "passes/pass.h"

namespace anfora::passes {

extern const Pass kCaches, kEpilogue, kGradientKernels, kLayers, kNormalizations, kParallel, kPrologue, kQuantized, kSplit, kWeights;

namespace {

template <const Pass& kPass>
size_t run_rules(PassContext& context) {
  static const auto rules = built_in_rules({kPass.name});
  return rewrite::apply_rules(*rules, context.rewriting(), context.inference, context.remarks, kPass.name);
}

}  // namespace

std::shared_ptr<const rewrite::RuleSet> rules_of_passes() {
  static const auto rules = built_in_rules({std::begin(kRulesOfPasses), std::end(kRulesOfPasses)});
  return rules;
}

const Pass kCaches{"caches", "KV-cache fusion", "keys and values appended inside their Attention", run_rules<kCaches>};
const Pass kEpilogue{"epilogue", "epilogues", "what surrounds a product or a convolution is done on the way",
                     run_rules<kEpilogue>};
const Pass kGradientKernels{"gradient-kernels", "kernels of gradients",
                            "what differentiation makes, as operators with kernels", run_rules<kGradientKernels>};
const Pass kLayers{"layers", "states and directions", "initial states, directions and axes of recurrent layers",
                   run_rules<kLayers>};
const Pass kNormalizations{"normalizations", "normalizations", "batch normalization as arithmetic, which joins groups", run_rules<kNormalizations>};
const Pass kParallel{"parallel", "horizontal fusion", "products of one value become one product", run_rules<kParallel>};
const Pass kPrologue{"prologue", "prologues", "what a pointwise convolution reads is made on the way", run_rules<kPrologue>};
const Pass kQuantized{"quantized", "integer products", "what is multiplied of quantized numbers is multiplied as integers", run_rules<kQuantized>};
const Pass kSplit{"split", "slices to Split", "slices that tile an axis become one Split", run_rules<kSplit>};
const Pass kWeights{"weights", "conv + batch norm, mul, add", "fold scales and offsets into weights",
                    run_rules<kWeights>};

}  // namespace anfora::passes
