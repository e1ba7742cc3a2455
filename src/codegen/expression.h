// The statements of a group as terms: equal ones once.
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/vector_math.h"

namespace anfora::codegen {

// A function of the language of kernels/generated/scalar_forms.h, elementwise.
struct ScalarFunction {
  std::string_view name;
  size_t arity;
  bool is_costly;  // more than a few instructions: it is not computed twice
  Value (*emit)(Builder& builder, VectorMath& math, std::span<const Value> x);
};

struct Term {
  enum class Kind : uint8_t {
    Number,   // the same everywhere
    RowSize,  // the number of elements of a row
    Input,
    Apply,
    Sum,  // along a row
    Largest,
    LargestNumber,  // as if there were no NaN, and zeros were alike
    Smallest,
  };
  Kind kind = Kind::Number;
  int64_t bits = 0;  // of a Number
  Element element = Element::F32;
  int input = 0;
  const ScalarFunction* function = nullptr;  // of Apply
  std::vector<int> operands;

  float number() const { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }  // of an f32
  bool is_reduction() const { return kind >= Kind::Sum; }
  auto operator<=>(const Term&) const = default;
};

// The terms of statements, operands first.
struct Terms {
  std::vector<Term> all;
  std::vector<int> values;  // by number of a value: inputs, then statements
};

// Throws Internal where a statement is not of the language.
Terms parse_statements(size_t num_inputs, std::span<const std::string> statements);

}  // namespace anfora::codegen
