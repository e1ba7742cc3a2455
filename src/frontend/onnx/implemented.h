// What ONNX has and run times have not: the facts about ONNX Runtime's CPU kernels (docs/OperatorKernels.md there), the most complete
// that there are and what most files are written for. tests/frontend/onnxruntime_kernels.py holds them to the installed version.
#pragma once

#include <cstdint>
#include <string_view>

#include "ir/module.h"

namespace anfora::onnx {

inline constexpr std::string_view kOnnxRuntime = "ONNX Runtime 1.31";
inline constexpr int64_t kNewestReadOpset = 26, kNewestReadIrVersion = 13;

// Whether there is a kernel for the version of an operator (of the main domain) that came with the operator set `since`, or parts that
// stand in for it in every operator set.
bool has_kernel(std::string_view op_type, int64_t since);

// Whether an application that an optimizer would make runs, in a model of that operator set, where the model may have run before:
// ONNX lets Where choose between bools, and Relu take integers of 64 bits, but there are no kernels for that. Found by running
// optimized random models there (tests/fuzz/onnxruntime_check.py).
bool is_implemented(const ir::Apply& node, int64_t opset);

// Whether an application's kernel is accurate relative to its value, however small. That of Sigmoid is accurate relative to 1, and its
// result 0 below −18; 1 / (1 + exp(−x)) is not. Where the argument is known not to be so small, it does not matter.
bool is_accurate(const ir::Apply& node);

}  // namespace anfora::onnx
