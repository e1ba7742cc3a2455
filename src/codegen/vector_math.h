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

  // Of integers as well, where they wrap.
  Value negate(Value x);
  Value magnitude(Value x);
  // A number that is not negative, with the sign of another.
  Value with_sign(Value x, Value of);
  // NaN where one is; −0 is smaller than 0. Of integers as well.
  Value larger(Value a, Value b);
  Value smaller(Value a, Value b);
  Value is_nan(Value x);
  Value negation(Value mask);
  // The second where the mask is on, else the third; also of masks.
  Value choice(Value mask, Value a, Value b);
  // As an element of f32, i32, i64 or mask: a number that is not 0 is on.
  Value converted(Value x, Element element);
  // The nearest integer, ties to even; for |x| < 2²².
  Value round(Value x);
  // The same of every x, as the next two: they keep NaN, infinities and the sign of zeros.
  Value nearest(Value x);
  Value floor(Value x);
  Value ceil(Value x);

  Value exp(Value x);
  Value exp_of_negative(Value x);         // for x ≤ 0
  Value exp_of_negative_normal(Value x);  // the same, but 0 where the result would be subnormal
  Value expm1(Value x);                   // for x ≤ 88
  Value log(Value x);
  Value sigmoid(Value x);
  Value softplus(Value x);
  Value tanh(Value x);
  Value erf(Value x);
  Value gelu(Value x);
  Value gelu_tanh(Value x);
  Value asin(Value x);
  Value acos(Value x);
  Value atan(Value x);
  // For every x; angles beyond kLargestAngle take a branch (vector_sine.cc).
  Value sin(Value x);
  Value cos(Value x);
  // C's pow, with all of its special cases (vector_power.cc).
  Value pow(Value x, Value y);

 private:
  bool is_integer(Value x) const;
  Value number(Element element, int value);
  Value polynomial(std::initializer_list<float> coefficients, Value x);
  Value arc_of_magnitude(Value t);
  struct Reduced {
    Value n;     // i32, the integer next to x / ln 2, in its lower nine bits
    Value tail;  // exp(r) − 1 for the rest r = x − n ln 2
  };
  Reduced reduce_exponent(Value x);
  Value power_of_two(Value n, int32_t more = 0);  // 2^(n + more), by the lower nine bits of n
  Value scaled_exponential(Value x, Value more, Value inverse);
  Value exp_of_small(Value x);  // for |x| ≤ 87
  Value exp_tail(Value r);       // exp(r) − 1 for |r| ≤ ln 2 / 2
  Value log1p_of_fraction(Value x);

  Value sine(Value x, int quarters);          // of |x| and so many quarters of a turn
  Value sine_of_near(Value x, int quarters);  // for 0 ≤ x ≤ kLargestAngle
  Value sine_of_far(Value x, int quarters);   // for x beyond it
  Value sine_of_rest(Value r, Value quarter);
  Value high_product(Value a, Value b);  // i32: the upper 32 bits of a · b, both without sign, a < 2²⁴

  struct Pair {  // high + low: some 45 bits
    Value high, low;
  };
  Pair exact_product(Value a, Value b);
  Pair exact_sum(Value a, Value b);  // for |a| ≥ |b|, or a = 0
  Pair log2(Value x);                // of x > 0

  Builder& b_;
  const IsaDescription& isa_;
};

}  // namespace anfora::codegen
