// What a model takes from its caller is a policy, not the optimizer's to choose.
#pragma once

#include <string_view>

#include "ir/module.h"
#include "support/function_ref.h"

namespace anfora::pipeline {

// An ONNX initializer that is an input as well is a default that a caller may override, so nothing is computed from it.
// Frozen, it is a constant, and no input any more. Returns how many of those that `is_frozen` tells were.
size_t freeze_defaults(ir::Module& module, FunctionRef<bool(std::string_view)> is_frozen);

// Inputs that nothing depends on, once the model is optimized, are no inputs any more. Returns how many were.
size_t prune_inputs(ir::Module& module);

}  // namespace anfora::pipeline
