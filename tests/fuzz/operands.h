// Operands of the operators that no rule has, beside those of tests/rules/operands.h.
#pragma once

#include "rules/operands.h"

namespace anfora::fuzz {

// As rules::choose_operands() and rules::choose_attribute(). Here the result's shape is a hint only.
bool choose_operands(rules::Application& application);
std::optional<AttributeValue> choose_attribute(const rules::Application& application,
                                               const ir::AttributeDeclaration& declaration);

}  // namespace anfora::fuzz
