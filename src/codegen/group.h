// The loop IR of groups.
#pragma once

#include "codegen/loop_ir.h"
#include "kernels/generated/group_code.h"

namespace anfora::codegen {

// The function of a group, and how many rows of memory it keeps from pass to pass (GroupArgument::kBuffers).
struct GroupFunction {
  Function function;
  int buffers = 0;
};

// Throws Internal where a statement is not of the language of kernels/generated/scalar_forms.h.
GroupFunction group_function(const kernels::generated::GroupCode& code);

}  // namespace anfora::codegen
