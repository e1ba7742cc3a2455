// In which order a graph's applications are executed: one that needs little memory.
//
// The order of ir/order.h is that of a depth-first walk: what a result needs is computed right before it. It leaves open what reads a value
// for the last time and is wanted late only. In a training step that is most of the backward pass: the gradient of a weight reads
// activations, which lie there until the optimizer, at the end of the walk, asks for it.
//
//     walk         y = relu(x), …, dy, dx = dy·wᵀ, …             dw = xᵀ·dy, w − dw        x and dy live until then
//     scheduled    y = relu(x), …, dy, dx = dy·wᵀ, dw = xᵀ·dy, …            w − dw         they die at once
//
// Greedy list scheduling over that walk: as soon as an application can be executed and the memory that it frees is not less than what
// it takes, it is; else the next of the walk. The level after a step is so never higher than without it. Both orders are measured
// (memory_profile.h), and the walk is kept unless the other needs less. O(n log n). What draws random numbers, has effects or calls a
// function stays where it is. Readers of a value then come before the operators that may overwrite it (update_order.h).
#pragma once

#include "ir/order.h"
#include "support/aligned_bytes.h"

namespace anfora::analysis {

// The nodes of `graph`, operands before users, the return node last. `captured`: the free variables of the functions of the same order.
LargeVector<ir::Apply*> schedule(const ir::GraphOrder& graph, const ir::FreeVariables& captured);

}  // namespace anfora::analysis
