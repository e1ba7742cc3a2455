// What operators compute element by element, as expressions: what generated code is made of (codegen/expression.h), and what the pass
// `group` fuses.
//
//     Relu             X < 0 ? 0 : X
//     Softmax          e = exp_of_negative(input - row_max(input)); e / row_sum(e)
//
// An expression is over the names of the operator's inputs and attributes; omitted inputs are `none`, and `x ?? y` is y where x is. There are
// + − * / and comparisons, && || !, c ? x : y, numbers, `infinity`, `nan`, strings for attributes of text ('tanh'), locals (d = …; …), and
// functions. Where there is any number of inputs, the form is of two. Functions of a row (row_sum, row_mean, row_max, row_min, row_size) are along the last axis: such an operator has this form only
// where it works along that one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ir/node.h"

namespace anfora::ops {

// Where an operator with functions of a row says along which axis it works.
enum class Along : uint8_t {
  Elements,  // nowhere: it is elementwise
  Axis,      // in the attribute `axis`
  Axes,      // in operand 1, a constant; `keepdims` says whether the result keeps the axis
};

struct ScalarForm {
  std::string_view op;  // its qualified name
  std::string_view expression;
  Along along = Along::Elements;
  uint32_t bools = 0;         // the operands that are bool, a bit each; others are f32
  bool is_predicate = false;  // the result is bool
};

// Null where there is none.
const ScalarForm* scalar_form(const ir::Operator& op);
std::span<const ScalarForm> scalar_forms();

// Whether it is that of an application: as to the number and types of its operands.
bool applies(const ScalarForm& form, const ir::Apply& node);

// Whether operand i is part of the expression: not the axes.
inline bool is_scalar_operand(const ScalarForm& form, size_t i) { return form.along != Along::Axes || i == 0; }

// The expression for an application: operands by the names that they have in a program of statements, attributes by their values.
std::string scalar_statement(const ir::Apply& node, const ScalarForm& form, std::span<const std::string> operands);

}  // namespace anfora::ops
