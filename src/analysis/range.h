// What is known of the numbers in a value: bounds, and whether a NaN may be among them. Guards of rules ask it:
// Abs(x) = x where x is not negative, Sqrt(x) · Sqrt(x) = x likewise.
//
// An interval analysis from the operands to the result, on demand and remembered by node. It looks through tensors,
// not at single elements; parameters, calls and what it does not know have the range of their element type. Bounds of floats
// are widened to infinity where a result may overflow its type, so finite bounds mean finite values.
#pragma once

#include <optional>
#include <vector>

#include "ir/node.h"
#include "ir/value_range.h"

namespace anfora::analysis {

using ir::ValueRange;

class RangeAnalysis {
 public:
  enum class Assume : uint8_t {
    Nothing,
    // Main's parameters are finite, sums and products do not overflow, and what is reduced has elements. What else makes a NaN or
    // an infinity of numbers (Sqrt, Log, Div, Exp, a constant) still may.
    OrdinaryInputs,
  };
  explicit RangeAnalysis(Assume assume = Assume::Nothing) : assumes_ordinary_(assume == Assume::OrdinaryInputs) {}

  // Of all elements of a numeric or bool tensor (bools are 0 and 1); any other value: everything.
  ValueRange range(const ir::Node* node) {
    if (assumes_ordinary_) visit_operands(node);
    return visit(node, kDeepest);
  }

 private:
  class Application;
  // Operands above a node that are looked at; beyond, a value is anything of its type.
  static constexpr int kDeepest = 24;
  ValueRange visit(const ir::Node* node, int depth);
  ValueRange of_application(const ir::Apply& node, int depth);
  // Everything above a node, however deep: finite inputs say something of all that is computed of them.
  void visit_operands(const ir::Node* node);
  const bool assumes_ordinary_;
  ValueRange* find(const ir::Node* node);
  std::vector<std::optional<ValueRange>> known_;  // by the node's id
};

}  // namespace anfora::analysis
