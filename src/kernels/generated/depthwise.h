// A depthwise convolution, and the pointwise one that may be before it, by generated code.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "kernels/generated/depthwise_code.h"
#include "kernels/generated/machine_code.h"
#include "kernels/prepared.h"

namespace anfora::kernels::generated {

// Makes those entries, in that order.
using DepthwiseGenerator = MachineCode (*)(const DepthwiseCode& code, std::span<const DepthwiseEntry> entries);

inline constexpr std::string_view kExpansionDepthwise = "LoweredExpansionDepthwise";

// Whether generated code is expected to be faster than a library's for a depthwise LoweredConv.
bool prefers_generated_depthwise(const KernelData& data);

// Of those operators. Null where a convolution is not depthwise with channels last, sizes are not known, a type is not f32, weights are not constant or not finite, or no code can be generated for an
// activation. Weights and code that the data has already are taken as they are; without a generator, code must be there. Throws as
// ExecutableCode::map().
std::unique_ptr<PreparedKernel> prepare_depthwise(KernelData& data, DepthwiseGenerator generate);

// Of LoweredConvInteger, exactly. Null where the convolution is not depthwise over two axes with channels last, has no scale, weights or their
// zero points are no constants, or no code can be generated for an activation.
std::unique_ptr<PreparedKernel> prepare_integer_depthwise(KernelData& data, DepthwiseGenerator generate);

}  // namespace anfora::kernels::generated
