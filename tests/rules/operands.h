// Plausible operands and attributes of operators, from the result back: for a result of shape [2, 3] a Transpose needs an
// operand of [3, 2], a MatMul one of [2, k] and one of [k, 3], a Reshape the vector [2, 3] as second operand. Tables say so by
// operator (operand_tables.h); an operator that is in none has operands of the result's shape. What comes out is only likely
// to fit: inference has the last word.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/operator.h"
#include "rules/draw.h"

namespace anfora::rules {

// What an operand shall be.
struct Want {
  DType dtype = DType::Undefined;
  Shape shape;
  bool broadcasts = false;                      // a shape that broadcasts to this one serves as well
  std::optional<std::vector<int64_t>> values;   // its elements: axes, sizes; it is a constant then
  std::optional<Bounds> bounds;                 // of its elements: indices
  bool is_small = false;                        // it is a number, which makes no result larger
  bool absent = false;                          // an optional operand that is left out
  std::optional<Shape> bound;                   // of what it is already: the pattern has met it before
  const std::vector<DType>* allowed = nullptr;  // where the element type is not decided yet
};

struct Application {
  const ir::Operator& op;
  Shape result;     // of the result that is looked at
  DType dtype;      // its element type
  size_t item = 0;  // its number
  std::map<std::string, AttributeValue> attributes;
  std::vector<Want> operands;  // as many as there are; element types are there already
  Draw& draw;

  bool has(size_t operand) const { return operand < operands.size(); }
  int rank() const { return static_cast<int>(result.size()); }
  // The attribute, else its default, else `otherwise`.
  int64_t get_int(std::string_view name, int64_t otherwise) const;
  std::vector<int64_t> get_ints(std::string_view name, std::vector<int64_t> otherwise) const;
};

// Fills shapes and values of the operands. False: no operands give such a result.
bool choose_operands(Application& application);
// The same where any result will do: recurrent layers, scatters and the like are drawn from the operands on.
bool choose_free_operands(Application& application);

// A value for an attribute that a rule binds, by name and operator; empty: there is no idea of any.
std::optional<AttributeValue> choose_attribute(const Application& application,
                                               const ir::AttributeDeclaration& declaration);

int64_t random_extent(Draw& draw);
Shape random_shape(Draw& draw, int rank);
// A shape that broadcasts to the given one.
Shape narrower_shape(Draw& draw, const Shape& shape);

}  // namespace anfora::rules
