// Epilogue fusion: rules/epilogue.rules, for programs that run.
#include "passes/pass.h"
#include "rewrite/rule_set.h"

namespace anfora::passes {

extern const Pass kEpilogue;

namespace {

size_t run_epilogue(PassContext& context) {
  static const auto rules = built_in_rules({"epilogue.rules"});
  return rewrite::apply_rules(*rules, context.rewriting(), context.inference, context.remarks, kEpilogue.name);
}

}  // namespace

const Pass kEpilogue{"epilogue", "epilogues", "what surrounds a product or a convolution is done on the way",
                     run_epilogue};

}  // namespace anfora::passes
