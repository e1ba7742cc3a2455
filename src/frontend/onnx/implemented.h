// What ONNX has and run times have not.
#pragma once

#include "ir/module.h"

namespace anfora::onnx {

// Whether an application that an optimizer would make runs where the model may have run before: ONNX lets Where choose between
// bools, and Relu take integers of 64 bits, but ONNX Runtime's CPU operators (docs/OperatorKernels.md there), the most complete
// that there are, have no kernels for that. Found by running optimized random models there (tests/fuzz/onnxruntime_check.py).
bool is_implemented(const ir::Apply& node);

}  // namespace anfora::onnx
