// Rules of simplification that are functions, each group in the file of its name.
#pragma once

#include <span>

#include "rewrite/rule.h"

namespace anfora::passes {

inline bool is_sum(const ir::Operator& op) { return op.piecewise == ir::PiecewiseOp::Add || op.piecewise == ir::PiecewiseOp::Sub; }
// In each operand, where the others are constants.
inline bool is_linear(const ir::Operator& op) {
  using enum ir::PiecewiseOp;
  return is_sum(op) || op.piecewise == Neg || op.piecewise == Mul || op.piecewise == Div;
}

// Of sizes that the model's inputs have.
std::span<const rewrite::Rule> shape_rules();
// Of sums and products as a whole.
std::span<const rewrite::Rule> normal_form_rules();
// Of factors that vanish in what computes their operand.
std::span<const rewrite::Rule> factor_rules();
// Of small regions that compute piecewise linear functions.
std::span<const rewrite::Rule> piecewise_rules();
// Of chains that move data.
std::span<const rewrite::Rule> index_map_rules();

}  // namespace anfora::passes
