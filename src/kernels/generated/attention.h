// Attention of f32 by generated code.
#pragma once

#include <memory>
#include <span>

#include "kernels/generated/attention_code.h"
#include "kernels/generated/machine_code.h"
#include "kernels/prepared.h"

namespace anfora::kernels::generated {

// Makes the entries of those numbers (AttentionEntry), in that order.
using AttentionGenerator = MachineCode (*)(const AttentionCode& code, std::span<const int> numbers);

// Null where an element type is not f32 (of the mask: f32 or bool), or scores are asked for. Code that the data has already is taken as it
// is; without a generator, it must be there. Throws as ExecutableCode::map().
std::unique_ptr<PreparedKernel> prepare_attention(KernelData& data, AttentionGenerator generate);

}  // namespace anfora::kernels::generated
