// The loop IR of depthwise convolutions.
#pragma once

#include "codegen/loop_ir.h"
#include "kernels/generated/depthwise_code.h"

namespace anfora::codegen {

// For so many pixels at once.
Function depthwise_function(const kernels::generated::DepthwiseCode& code, int pixels);

}  // namespace anfora::codegen
