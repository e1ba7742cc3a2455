// What operators compute element by element, as expressions: what generated code is made of (codegen/expression.h), and what the pass
// `group` fuses.
//
//     Relu             X < 0 ? 0 : X
//     Softmax          e = exp_of_negative(input - row_max_number(input)); e * (1 / row_sum(e))
//
// An expression is over the names of the operator's inputs and attributes; omitted inputs are `none`, and `x ?? y` is y where x is. There are
// + − * / and comparisons, && || !, c ? x : y, numbers, `infinity`, `nan`, strings for attributes of text ('tanh'), locals (d = …; …), and
// functions; `lowest` and `highest` are the limits of the result's type, `result_type` is its name as a string. Integers are written #-1i (i32)
// and #-1l (i64), and wrap; f32(x), i32(x), i64(x) and bool(x) convert. Where there is any number of inputs, the form is of two. Functions of a
// row (row_sum, row_mean, row_max, row_min, row_size, and row_max_number, for which NaN is no number) are along the last axis: such an operator has
// this form only where it works along that one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace anfora::kernels::generated {

// Where an operator with functions of a row says along which axis it works.
enum class Along : uint8_t {
  Elements,  // nowhere: it is elementwise
  Axis,      // in the attribute `axis`
  Axes,      // in operand 1, a constant; `keepdims` says whether the result keeps the axis
};

// Of which types operands may be that are neither bool nor bytes by what follows; the result is of the same, or bool.
enum class Over : uint8_t {
  Floats,   // f32
  Numbers,  // f32, i32 or i64, all alike
  Values,   // these or bool, all alike
  Each,     // any that a group reads; the result as well, but for bytes
};

struct ScalarForm {
  std::string_view op;  // its qualified name
  std::string_view expression;
  Along along = Along::Elements;
  uint32_t bools = 0;         // the operands that are bool, a bit each
  bool is_predicate = false;  // the result is bool
  uint32_t bytes = 0;         // the operands that are i8 or u8
  bool is_byte = false;       // the result is i8 or u8
  Over over = Over::Floats;
};

// By the operator's qualified name; null where there is none.
const ScalarForm* scalar_form(std::string_view op);

// The expression with what stands for its names: inputs and attributes. A name for which the text is empty stays, as a local does.
std::string substituted(std::string_view expression, const std::function<std::string(std::string_view name)>& text_of);

}  // namespace anfora::kernels::generated
