// What the operators of a group work on together: a space of elements, in rows along its last axis. An operand has an element for each of
// the space, or is repeated along some axes; along the last one, it is a number of the row.
//
//     space f32[N, 8, 64]     f32[N, 8, 64], f32[64], f32[8, 1] (a number of each row), f32[]
#pragma once

#include <optional>

#include "ir/node.h"
#include "ops/scalar_forms.h"

namespace anfora::analysis {

struct GroupSpace {
  const ir::Type* type = nullptr;
  bool reduces = false;  // something is summed along rows: the last axis is what it is

  // That of two operators in one group, if there is one: the same, or one is of numbers of the other's rows.
  static std::optional<GroupSpace> joined(const GroupSpace& a, const GroupSpace& b);
};

// Of one application that code can be generated for: one with a scalar form (kernels/generated/scalar_forms.h), whose operands are not repeated in a
// way that only a run shows.
std::optional<GroupSpace> group_space(const ir::Apply& node);

// Whether such an operand fits: every axis, counted from the last, is that of the space or 1.
bool fits(const ir::Type* operand, const ir::Type* space);

bool is_same_shape(const ir::Type* a, const ir::Type* b);

// Operand 0 of an application, which calls it where no kernel is generated; null for others.
ir::Graph* function_of_group(const ir::Apply& node);

}  // namespace anfora::analysis
