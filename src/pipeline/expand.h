// Operators that nothing computes, by what they mean.
#pragma once

#include "ir/module.h"

namespace anfora::pipeline {

// Rewrites operators of ONNX Runtime (domain com.microsoft) into ONNX's, as far as it is known how. Before anything runs, and
// where a model shall run elsewhere; the optimizer itself leaves them alone, for ONNX Runtime runs them faster than what they
// stand for. Returns how many there were.
size_t expand(ir::Module& module);
// Whether there are any.
bool has_expansions(const ir::Module& module);

// StopGradient and CustomGradient, which only differentiation reads, become what they compute. `expand` does so, too.
size_t forget_gradients(ir::Module& module);
bool has_custom_gradients(const ir::Module& module);

}  // namespace anfora::pipeline
