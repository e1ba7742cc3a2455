// A depthwise convolution, and the pointwise one that may be before it, by generated code.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "kernels/generated/depthwise_code.h"
#include "kernels/generated/machine_code.h"
#include "kernels/prepared.h"

namespace anfora::kernels::generated {

// Makes the entries of those numbers (DepthwiseEntry), in that order.
using DepthwiseGenerator = MachineCode (*)(const DepthwiseCode& code, std::span<const int> numbers);

inline constexpr std::string_view kExpansionDepthwise = "LoweredExpansionDepthwise";

// Whether a convolution is in groups so narrow that a library's kernels leave most lanes of their vectors empty. As a depthwise one it fills them, but reads each
// channel of the input once for each channel of the result. Weights: [channels, inputs of a group, rows, columns].
bool has_narrow_groups(std::span<const int64_t> weights, const AttributeSet& attributes);

// Whether generated code is expected to be faster than a library's for a LoweredConv that is depthwise, or in groups.
bool prefers_generated_depthwise(const KernelData& data);

// Of those operators; sizes may be open. Null where a convolution is not in groups over one or two axes with channels last, a type is not f32, weights are not
// constant or not finite, groups have several inputs and their rows a dilation, or no code can be generated for an activation. Weights and code that the data
// has already are taken as they are; without a generator, code must be there. Throws as ExecutableCode::map().
std::unique_ptr<PreparedKernel> prepare_depthwise(KernelData& data, DepthwiseGenerator generate);

// Of LoweredConvInteger, exactly. Null where the convolution is not depthwise over two axes with channels last, has no scale, weights or their
// zero points are no constants, or no code can be generated for an activation.
std::unique_ptr<PreparedKernel> prepare_integer_depthwise(KernelData& data, DepthwiseGenerator generate);

}  // namespace anfora::kernels::generated
