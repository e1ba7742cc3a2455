// Elementary functions of tiles of f32, in the loop IR: those of kernels/reference/vector_math.h, step by step. NaN, infinities and signed
// zeros are kept as libm does.
#pragma once

#include <initializer_list>

#include "codegen/loop_ir.h"

namespace anfora::codegen {

class VectorMath {
 public:
  VectorMath(Builder& builder, const IsaDescription& isa) : b_(builder), isa_(isa) {}

  // a · b + c: with one rounding where the processor has that.
  Value fma(Value a, Value b, Value c);
  Value fma(Value a, Value b, float c) { return fma(a, b, b_.constant(c)); }

  Value negate(Value x);
  Value magnitude(Value x);
  // A number that is not negative, with the sign of another.
  Value with_sign(Value x, Value of);
  // NaN where one is; −0 is smaller than 0.
  Value larger(Value a, Value b);
  Value smaller(Value a, Value b);
  Value is_nan(Value x);
  Value negation(Value mask);
  // The nearest integer, ties to even; for |x| < 2²².
  Value round(Value x);
  // The same as an i32.
  Value integer_of(Value x);

  Value exp(Value x);
  Value exp_below_overflow(Value x);  // for x ≤ 89
  Value exp_of_negative_normal(Value x);  // for x ≤ 0; 0 where the result would be subnormal
  Value expm1(Value x);               // for x ≤ 88
  Value log(Value x);
  Value sigmoid(Value x);
  Value softplus(Value x);
  Value tanh(Value x);
  Value erf(Value x);
  Value gelu(Value x);
  Value gelu_tanh(Value x);

 private:
  Value polynomial(std::initializer_list<float> coefficients, Value x);
  struct Reduced {
    Value n;     // i32, the integer next to x / ln 2
    Value tail;  // exp(r) − 1 for the rest r = x − n ln 2
  };
  Reduced reduce_exponent(Value x);
  Value power_of_two(Value n);
  Value scaled_exponential(Value x, Value n, Value tail);
  Value exp_of_small(Value x);  // for |x| ≤ 87
  Value log1p_of_fraction(Value x);

  Builder& b_;
  const IsaDescription& isa_;
};

}  // namespace anfora::codegen
