// Constants and attributes in the text form.
#pragma once

#include <string>

#include "ir/print.h"

namespace anfora::ir {

// A constant whose elements are all the same is written as one of them up to this size, beyond by its hash: the
// parser allocates what the text says.
inline constexpr int64_t kMostUniformElements = int64_t{1} << 16;

// Whether a constant without a name stands in the operand list itself; else a statement of its own defines it.
bool is_short(const Tensor& tensor);
// As an operand: "1.5", "[1, 2]"; dtypes and shapes that this would not tell go in front: "f16[] 1.5".
void append_operand(std::string& out, const Tensor& tensor);
// With its type: "f32[2, 2] [[1.0, 2.0], [3.0, 4.0]]", "f32[8] 0.0" where all elements are the same bits.
void append_constant(std::string& out, const Tensor& tensor, const PrintOptions& options);
void append_attributes(std::string& out, const AttributeSet& attributes, const PrintOptions& options);

}  // namespace anfora::ir
