// The interface between operator declarations and range analysis: what an operator may ask about one of its applications, and the
// functions that declarations name, `Declaration::range(range_of_sum)`. They give bounds of the result's elements from bounds of the
// operands'. Interval arithmetic: Moore, "Interval Analysis", 1966.
#pragma once

#include "ir/node.h"
#include "ir/value_range.h"

namespace anfora::ops {

using ir::ValueRange;

// Everything that the element type can hold.
ValueRange range_of_type(const ir::Type* type);
// Whether it is a tensor of f16, bf16, f32 or f64.
bool holds_floats(const ir::Type* type);
// The finite numbers of such a type.
ValueRange finite_range(const ir::Type* type);

class RangeContext {
 public:
  virtual ~RangeContext() = default;
  RangeContext(const ir::Apply& node, bool assumes_ordinary) : node_(node), assumes_ordinary_(assumes_ordinary) {}

  const ir::Apply& node() const { return node_; }
  const ir::Type* type() const { return node_.type(); }
  // Sums and products do not overflow, and what is reduced has elements.
  bool assumes_ordinary() const { return assumes_ordinary_; }
  virtual ValueRange input(size_t i) = 0;

  ValueRange anything() const { return range_of_type(type()); }
  // A computed range as the result's type holds it: integers wrap around, floats overflow and round.
  ValueRange fitted(ValueRange range) const;
  // Of an output, without a function of its own: finite numbers of finite ones, where the operator is declared so.
  ValueRange otherwise(const ir::Type* output);

 private:
  const ir::Apply& node_;
  const bool assumes_ordinary_;
};

// Arithmetic.
ValueRange range_of_sum(RangeContext& ctx);
ValueRange range_of_difference(RangeContext& ctx);
ValueRange range_of_product(RangeContext& ctx);
ValueRange range_of_quotient(RangeContext& ctx);
ValueRange range_of_reciprocal(RangeContext& ctx);
ValueRange range_of_power(RangeContext& ctx);
ValueRange range_of_negation(RangeContext& ctx);
ValueRange range_of_magnitude(RangeContext& ctx);
ValueRange range_of_minimum(RangeContext& ctx);
ValueRange range_of_maximum(RangeContext& ctx);
ValueRange range_of_clip(RangeContext& ctx);
// Functions of one operand.
ValueRange range_of_exponential(RangeContext& ctx);
ValueRange range_of_logarithm(RangeContext& ctx);
ValueRange range_of_square_root(RangeContext& ctx);
ValueRange range_of_relu(RangeContext& ctx);
ValueRange range_of_sigmoid(RangeContext& ctx);
ValueRange range_of_tanh(RangeContext& ctx);
ValueRange range_of_sign(RangeContext& ctx);
ValueRange range_of_floor(RangeContext& ctx);
ValueRange range_of_ceiling(RangeContext& ctx);
ValueRange range_of_rounding(RangeContext& ctx);
ValueRange range_of_wave(RangeContext& ctx);  // sine and cosine
ValueRange range_of_softmax(RangeContext& ctx);
ValueRange range_from_zero_to_one(RangeContext& ctx);        // for all numbers
ValueRange range_from_minus_one_to_one(RangeContext& ctx);  // for all numbers
ValueRange range_of_softplus(RangeContext& ctx);
// Bools.
ValueRange range_of_less(RangeContext& ctx);
ValueRange range_of_less_or_equal(RangeContext& ctx);
ValueRange range_of_greater(RangeContext& ctx);
ValueRange range_of_greater_or_equal(RangeContext& ctx);
ValueRange range_of_equal(RangeContext& ctx);
ValueRange range_of_and(RangeContext& ctx);
ValueRange range_of_or(RangeContext& ctx);
ValueRange range_of_not(RangeContext& ctx);
ValueRange range_of_is_nan(RangeContext& ctx);
ValueRange range_of_is_infinite(RangeContext& ctx);
// Choices and casts.
ValueRange range_of_choice(RangeContext& ctx);  // Where
ValueRange range_of_all_inputs(RangeContext& ctx);
ValueRange range_of_cast(RangeContext& ctx);
ValueRange range_of_counts(RangeContext& ctx);  // not negative: sizes, indices
ValueRange range_of_steps(RangeContext& ctx);   // Range
ValueRange range_of_fill(RangeContext& ctx);    // ConstantOfShape
// Reductions, pools, products of matrices.
ValueRange range_of_reduced_sum(RangeContext& ctx);
ValueRange range_of_magnitudes(RangeContext& ctx);  // a sum of what is not negative
ValueRange range_of_mean(RangeContext& ctx);
ValueRange range_of_largest(RangeContext& ctx);
ValueRange range_of_smallest(RangeContext& ctx);
ValueRange range_of_matmul(RangeContext& ctx);

}  // namespace anfora::ops
