// A group as its kernel sees it: the functions's statements in numbers and texts, without the IR.
#pragma once

#include <optional>

#include "ir/module.h"
#include "support/attribute.h"

namespace anfora::plan {

// The attributes that kernels/generated/group.h reads; nothing where the function holds what no code can be generated for.
std::optional<AttributeSet> group_attributes(const ir::Graph& function);

// Floating point operations for each element of its space, under sizes that are assumed where they are symbolic. Of such a group.
double flops_per_element(const ir::Graph& function);

}  // namespace anfora::plan
