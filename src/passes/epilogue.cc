// Epilogue fusion: rules/epilogue.rules, for programs that run.
#include "passes/pass.h"

namespace anfora::passes {

extern const Pass kEpilogue;

namespace {

size_t run_epilogue(PassContext& context) { return apply_rule_file(context, "epilogue.rules", kEpilogue.name); }

}  // namespace

const Pass kEpilogue{"epilogue", "epilogues", "what surrounds a product or a convolution is done on the way",
                     run_epilogue};

}  // namespace anfora::passes
