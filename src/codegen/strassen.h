// Generates the code of products by Strassen's algorithm (kernels/generated/strassen_code.h).
#pragma once

#include "codegen/loop_ir.h"
#include "kernels/generated/strassen_code.h"

namespace anfora::codegen {

// The entry of that number.
Function strassen_function(const kernels::generated::StrassenCode& code, int entry);

}  // namespace anfora::codegen
