// Values that are a part of a larger one's buffer from the start: parts of a Concat, which then copies the others alone; what a Slice takes of the last axis; and
// what a Slice, a Split or a Gather of one place takes that lies side by side.
//
//     %a = LoweredConv(…)  : f32[1, 8, 8, 64]            pixel    0        1        2
//     %b = LoweredConv(…)  : f32[1, 8, 8, 32]                  ┌─────┬──┬─────┬──┬─────┬──
//     %c = Concat(%a, %b)  : f32[1, 8, 8, 96]            %c    │  a  │b │  a  │b │  a  │b   …
//                                                              └─────┴──┴─────┴──┴─────┴──
//
// Rows of a part lie apart so, which the kernels that write and read it must know how to do (runtime::Kernel::writes_rows_apart()); where there is one row, any can.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/draft.h"
#include "plan/memory.h"

namespace anfora::plan {

// Of a draft whose memory has been planned without slices. Memory for the whole is needed as soon as one of its parts is written, and as long as one is read, so a
// value becomes a slice only where the arena need not grow by that; or, if sizes are symbolic, where that is a matter of few steps. By value; empty where there are
// none. O(steps), each times at most the distance that is looked back.
std::vector<Slice> choose_slices(const Draft& draft, const MemoryPlan& plan, const runtime::Program& program);

}  // namespace anfora::plan
