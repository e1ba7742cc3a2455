// A draft to a function of the machine: values get slots, slots are released and used again.
#pragma once

#include "plan/draft.h"
#include "plan/memory.h"
#include "plan/program_builder.h"

namespace anfora::plan {

// Symbols are set by the caller when all functions have asked for theirs.
runtime::Function emit(const Draft& draft, MemoryPlan memory, ProgramBuilder& program);

}  // namespace anfora::plan
