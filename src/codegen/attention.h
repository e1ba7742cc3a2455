// The loop IR of Attention.
#pragma once

#include "codegen/loop_ir.h"
#include "kernels/generated/attention_code.h"

namespace anfora::codegen {

Function attention_function(const kernels::generated::AttentionCode& code,
                            const kernels::generated::AttentionEntry& entry);

}  // namespace anfora::codegen
