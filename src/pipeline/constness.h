// What counts as a constant is a policy, settled before optimizing.
#pragma once

#include "ir/module.h"

namespace anfora::pipeline {

// An ONNX initializer that is an input as well is a default that a caller may override, so nothing is computed from it.
// Frozen, it is a constant, and no input any more. Returns how many were.
size_t freeze_defaults(ir::Module& module);

}  // namespace anfora::pipeline
