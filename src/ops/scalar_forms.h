// The scalar forms (kernels/generated/scalar_forms.h) of applications.
#pragma once

#include <span>
#include <string>

#include "ir/node.h"
#include "kernels/generated/scalar_forms.h"

namespace anfora::ops {

using kernels::generated::Along;
using kernels::generated::ScalarForm;

// Null where there is none for the number and types of its operands.
const ScalarForm* scalar_form(const ir::Apply& node);

// Whether operand i is part of the expression: not the axes.
inline bool is_scalar_operand(const ScalarForm& form, size_t i) { return form.along != Along::Axes || i == 0; }

// The expression: operands by the names that they have in a program of statements, attributes by their values.
std::string scalar_statement(const ir::Apply& node, const ScalarForm& form, std::span<const std::string> operands);

}  // namespace anfora::ops
