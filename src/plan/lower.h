// A graph to a list of steps.
#pragma once

#include "plan/draft.h"
#include "plan/program_builder.h"

namespace anfora::plan {

Draft lower(const ir::GraphOrder& order, ProgramBuilder& program);

}  // namespace anfora::plan
