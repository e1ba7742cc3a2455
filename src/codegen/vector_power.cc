// x^y = 2^(y log₂ x). As the exponent may be as large as 128, the logarithm takes some 32 bits: it is a sum of two floats, of which products and
// sums are exact (Dekker 1971). With m in [√3/2, √3) and c = 1 or 1.5, whichever is nearer by quotient:
//
//     x = 2^e m     log₂ x = e + log₂ c + 2 / ln 2 · artanh s,  s = (m − c) / (m + c),  |s| ≤ 0.101
//     artanh s = s + s³/3 + s⁵/5 + …
#include <limits>

#include "codegen/vector_math.h"

namespace anfora::codegen {

// Without an instruction for it, of halves whose products are exact.
VectorMath::Pair VectorMath::exact_product(Value a, Value b) {
  const Value product = b_.multiply(a, b);
  if (isa_.has_fma) return {product, b_.fma(a, b, negate(product))};
  auto upper = [&](Value x) { return b_.as_float(b_.binary(Op::And, b_.as_bits(x), b_.bits(~0xfff))); };
  const Value a_high = upper(a), a_low = b_.subtract(a, a_high), b_high = upper(b), b_low = b_.subtract(b, b_high);
  Value lost = b_.subtract(b_.multiply(a_high, b_high), product);
  lost = b_.add(b_.add(lost, b_.multiply(a_high, b_low)), b_.multiply(a_low, b_high));
  return {product, b_.add(lost, b_.multiply(a_low, b_low))};
}
VectorMath::Pair VectorMath::exact_sum(Value a, Value b) {
  const Value sum = b_.add(a, b);
  return {sum, b_.subtract(b, b_.subtract(sum, a))};
}

VectorMath::Pair VectorMath::log2(Value x) {
  constexpr int32_t kRootOfThreeQuarters = 0x3f5db3d7, kMantissaBits = 23;
  constexpr float kRootOfOneAndHalf = 1.22474487f;
  const Value is_tiny = b_.less(x, b_.constant(std::numeric_limits<float>::min()));
  const Value bits = b_.as_bits(b_.select(is_tiny, b_.multiply(x, b_.constant(0x1p25f)), x));
  const Value exponent = b_.binary(Op::ShiftRight, b_.subtract(bits, b_.bits(kRootOfThreeQuarters)), b_.bits(kMantissaBits));
  const Value m = b_.as_float(b_.subtract(bits, b_.binary(Op::ShiftLeft, exponent, b_.bits(kMantissaBits))));
  const Value e = b_.subtract(b_.to_float(exponent), b_.select(is_tiny, b_.constant(25), b_.constant(0)));
  const Value is_large = b_.less(b_.constant(kRootOfOneAndHalf), m);
  const Value c = b_.select(is_large, b_.constant(1.5f), b_.constant(1));
  // log₂ 1.5 in two parts, of which e + the first is exact.
  const Value log_high = b_.select(is_large, b_.constant(5.84960938e-1f), b_.constant(0)),
              log_low = b_.select(is_large, b_.constant(1.56322119e-6f), b_.constant(0));
  // What is lost in m + c and in the quotient goes to the lower part.
  const Value dividend = b_.subtract(m, c), divisor = b_.add(m, c);
  const Value divisor_low = b_.subtract(m, b_.subtract(divisor, c));
  const Value s = b_.divide(dividend, divisor);
  const Pair back = exact_product(s, divisor);
  const Value rest = b_.subtract(b_.subtract(b_.subtract(dividend, back.high), back.low), b_.multiply(s, divisor_low));
  const Value s_low = b_.divide(rest, divisor);
  const Value z = b_.multiply(s, s);
  const Value p = polynomial({1.0f / 9, 1.0f / 7, 1.0f / 5, 1.0f / 3}, z);
  const auto [sum, sum_low] = exact_sum(s, fma(b_.multiply(p, z), s, s_low));
  constexpr float kTwoByLn2 = 2.88539004e+0f, kTwoByLn2Low = 3.85192607e-8f;
  const Pair scaled = exact_product(sum, b_.constant(kTwoByLn2));
  const Value scaled_low = b_.add(scaled.low, fma(sum, b_.constant(kTwoByLn2Low), b_.multiply(sum_low, b_.constant(kTwoByLn2))));
  const auto [high, lost] = exact_sum(b_.add(e, log_high), scaled.high);
  return {high, b_.add(lost, b_.add(scaled_low, log_low))};
}

Value VectorMath::pow(Value x, Value y) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  const Value infinity = b_.constant(kInfinite), zero = b_.constant(0), one = b_.constant(1);
  auto is = [&](Value a, Value b) { return b_.binary(Op::Equal, a, b); };
  auto both = [&](Value a, Value b) { return b_.binary(Op::And, a, b); };
  const Value base = magnitude(x);
  const Pair log = log2(base);
  const Value is_infinite = is(base, infinity);
  Value log_high = b_.select(is(base, zero), negate(infinity), b_.select(is_infinite, infinity, log.high));
  log_high = b_.select(is_nan(x), x, log_high);
  const Pair exponent = exact_product(y, log_high);
  // 2^exponent, where it is neither 0 nor infinite.
  const Value n = round(exponent.high);
  const Value low = fma(y, log.low, exponent.low);
  const Value r = b_.multiply(b_.add(b_.subtract(exponent.high, n), low), b_.constant(6.93147182e-1f));
  const Value whole = b_.to_nearest(exponent.high), half = b_.binary(Op::ShiftRight, whole, b_.bits(1));
  Value result = b_.add(one, exp_tail(r));
  result = b_.multiply(b_.multiply(result, power_of_two(half)), power_of_two(b_.subtract(whole, half)));
  constexpr float kOverflow = 129, kUnderflow = -151;
  result = b_.select(b_.less(b_.constant(kOverflow), exponent.high), infinity, result);
  result = b_.select(b_.less(exponent.high, b_.constant(kUnderflow)), zero, result);
  result = b_.select(is(base, one), one, result);  // also of infinite exponents
  // Of a negative base: odd exponents keep the sign, and only integers have a power. Floats from 2²⁴ on are even.
  const Value is_integer = is(nearest(y), y), halved = b_.multiply(y, b_.constant(0.5f));
  const Value is_odd = both(is_integer, negation(is(nearest(halved), halved)));
  result = b_.select(is_odd, with_sign(result, x), result);
  const Value has_none = both(both(b_.less(x, zero), b_.less(negate(infinity), x)), negation(is_integer));
  result = b_.select(has_none, b_.constant(std::numeric_limits<float>::quiet_NaN()), result);
  return b_.select(b_.binary(Op::Or, is(y, zero), is(x, one)), one, result);
}

}  // namespace anfora::codegen
