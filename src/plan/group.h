// A group as its kernel sees it: the functions's statements in numbers and texts, without the IR.
#pragma once

#include <optional>

#include "ir/module.h"
#include "support/attribute.h"

namespace anfora::plan {

// The attributes that kernels/generated/group.h reads; nothing where the function holds what no code can be generated for.
std::optional<AttributeSet> group_attributes(const ir::Graph& function);

}  // namespace anfora::plan
