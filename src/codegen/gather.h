// Generates the code that gathers rows (kernels/generated/gather_code.h).
#pragma once

#include "codegen/loop_ir.h"
#include "kernels/generated/gather_code.h"

namespace anfora::codegen {

Function gather_function(const kernels::generated::GatherCode& code, Isa isa);

}  // namespace anfora::codegen
