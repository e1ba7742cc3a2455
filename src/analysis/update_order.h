// Who reads a value comes before the operator that may overwrite it, such as SequenceErase: where it is the last one, it need not copy.
//
//     walk       %s' = SequenceErase(%s), %top = SequenceAt(%s, -1), …    %s is copied: n turns of a loop take n² steps
//     ordered    %top = SequenceAt(%s, -1), %s' = SequenceErase(%s), …    %s' is %s
//
// An update so waits until its result is needed, and for the readers that can be computed without it. Which ones they are, list scheduling
// tells, which takes an update whose operand is still read only when nothing else is left: a reader that comes before the update there does
// not need it, and all such pairs together close no cycle. The order is then that of the walk, in which an update depends on these readers,
// too. O(n log n). Calls, and what draws or has effects, keep their order among each other.
#pragma once

#include "ir/order.h"
#include "support/aligned_bytes.h"

namespace anfora::analysis {

// The nodes of a graph, operands before users, in another order of that kind. `captured`: the free variables of the functions of the module.
LargeVector<ir::Apply*> order_updates(LargeVector<ir::Apply*> nodes, const ir::FreeVariables& captured);

}  // namespace anfora::analysis
