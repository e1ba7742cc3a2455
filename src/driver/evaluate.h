// Evaluation of single operators by the kernels that models are run with.
#pragma once

#include "passes/pass.h"

namespace anfora::driver {

// What folding computes large applications with: oneDNN where it has a kernel, on all cores, else the reference.
passes::Evaluator fast_evaluator();

}  // namespace anfora::driver
