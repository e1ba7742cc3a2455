// Parts of a Concat that lie in its result from the start: their kernels write them there, and the Concat copies the others alone.
//
//     %a = LoweredConv(…)  : f32[1, 8, 8, 64]            pixel    0        1        2
//     %b = LoweredConv(…)  : f32[1, 8, 8, 32]                  ┌─────┬──┬─────┬──┬─────┬──
//     %c = Concat(%a, %b)  : f32[1, 8, 8, 96]            %c    │  a  │b │  a  │b │  a  │b   …
//                                                              └─────┴──┴─────┴──┴─────┴──
//
// Rows of a part lie apart so, which its kernel must be able to write; where there is one row, any can. Nobody but the Concat may read the part.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/draft.h"
#include "plan/memory.h"

namespace anfora::plan {

// Of a draft whose memory has been planned without slices: memory for the whole is needed as soon as one of its parts is written, so a part
// becomes a slice only where the arena need not grow by that, or, if sizes are symbolic, where it is written shortly before the Concat. By value; empty where there
// are none. O(steps), each times at most the distance that is looked back.
std::vector<Slice> choose_slices(const Draft& draft, const MemoryPlan& plan, const runtime::Program& program);

}  // namespace anfora::plan
