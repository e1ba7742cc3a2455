#include "codegen/vector_math.h"

#include <limits>

namespace anfora::codegen {
namespace {

constexpr int32_t kSign = INT32_MIN;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
// ln 2 in two parts: n times the first is exact for |n| < 2^9.
constexpr float kLn2High = 6.93145752e-1f, kLn2Low = 1.42860677e-6f;
constexpr float kHalfPi = 1.57079637e+0f, kHalfPiLow = -4.37113883e-8f;  // π / 2 in two parts
constexpr float kSmallSine = 0.55f;  // up to here arcs are below ½, so that doubling one costs less than a unit in the last place
// Added to a number below 2^22, this leaves its integer part in the low bits.
constexpr float kShift = 0x1.8p23f;

}  // namespace

Value VectorMath::fma(Value a, Value b, Value c) {
  return isa_.has_fma ? b_.fma(a, b, c) : b_.add(b_.multiply(a, b), c);
}

Value VectorMath::polynomial(std::initializer_list<float> coefficients, Value x) {
  Value p = kNone;
  for (float c : coefficients) p = p == kNone ? b_.constant(c) : fma(p, x, c);
  return p;
}

bool VectorMath::is_integer(Value x) const { return b_.type(x).element == Element::I32 || b_.type(x).element == Element::I64; }
Value VectorMath::number(Element element, int value) {
  return element == Element::I64   ? b_.long_bits(value)
         : element == Element::I32 ? b_.bits(value)
                                   : b_.constant(static_cast<float>(value));
}

Value VectorMath::choice(Value mask, Value a, Value b) {
  if (b_.type(a).element != Element::Mask) return b_.select(mask, a, b);
  return b_.binary(Op::Or, b_.binary(Op::And, mask, a), b_.binary(Op::And, negation(mask), b));
}
Value VectorMath::converted(Value x, Element element) {
  const Element from = b_.type(x).element;
  if (from == element) return x;
  if (from == Element::Mask) return b_.select(x, number(element, 1), number(element, 0));
  if (element == Element::Mask) return negation(b_.binary(Op::Equal, x, number(from, 0)));
  return element == Element::F32 ? b_.to_float(x) : b_.to_integer(x, element);
}

Value VectorMath::negate(Value x) {
  if (is_integer(x)) return b_.subtract(number(b_.type(x).element, 0), x);
  return b_.as_float(b_.binary(Op::Xor, b_.as_bits(x), b_.bits(kSign)));
}
Value VectorMath::magnitude(Value x) {
  if (is_integer(x)) return b_.maximum(x, negate(x));
  return b_.as_float(b_.binary(Op::And, b_.as_bits(x), b_.bits(~kSign)));
}
Value VectorMath::with_sign(Value x, Value of) {
  const Value sign = b_.binary(Op::And, b_.as_bits(of), b_.bits(kSign));
  return b_.as_float(b_.binary(Op::Or, b_.as_bits(x), sign));
}

Value VectorMath::larger(Value a, Value b) {
  if (is_integer(a)) return b_.maximum(a, b);
  const Value both = b_.as_float(b_.binary(Op::And, b_.as_bits(a), b_.as_bits(b)));  // of 0 and −0: 0
  const Value chosen = b_.select(b_.binary(Op::Equal, a, b), both, b);
  return b_.select(b_.binary(Op::Or, b_.less(b, a), is_nan(a)), a, chosen);
}
Value VectorMath::smaller(Value a, Value b) {
  if (is_integer(a)) return b_.minimum(a, b);
  const Value either = b_.as_float(b_.binary(Op::Or, b_.as_bits(a), b_.as_bits(b)));  // of 0 and −0: −0
  const Value chosen = b_.select(b_.binary(Op::Equal, a, b), either, b);
  return b_.select(b_.binary(Op::Or, b_.less(a, b), is_nan(a)), a, chosen);
}
Value VectorMath::negation(Value mask) {
  const Value zero = b_.constant(0);
  return b_.binary(Op::Xor, mask, b_.binary(Op::Equal, zero, zero));
}
// What is added leaves no digits behind the point.
Value VectorMath::round(Value x) {
  const Value shift = b_.constant(kShift);
  return b_.subtract(b_.add(x, shift), shift);
}
// What is added to the magnitude leaves no digits behind the point. From 2²³ on, there are none.
Value VectorMath::nearest(Value x) {
  const Value bound = b_.constant(0x1p23f), size = magnitude(x);
  const Value rounded = b_.subtract(b_.add(size, bound), bound);
  return b_.select(b_.less(size, bound), with_sign(rounded, x), x);
}
Value VectorMath::floor(Value x) {
  const Value rounded = nearest(x);
  return b_.select(b_.less(x, rounded), b_.subtract(rounded, b_.constant(1)), rounded);
}
Value VectorMath::ceil(Value x) { return negate(floor(negate(x))); }
Value VectorMath::is_nan(Value x) { return negation(b_.binary(Op::Equal, x, x)); }

VectorMath::Reduced VectorMath::reduce_exponent(Value x) {
  const Value shift = b_.constant(kShift);
  const Value shifted = fma(x, b_.constant(1.44269504e+0f), shift);
  const Value n = b_.subtract(shifted, shift);
  Value r = fma(n, b_.constant(-kLn2High), x);
  r = fma(n, b_.constant(-kLn2Low), r);
  return {b_.as_bits(shifted), exp_tail(r)};
}

Value VectorMath::exp_tail(Value r) {
  const Value p = polynomial({1.395060215e-3f, 8.368953131e-3f, 4.166620597e-2f, 1.666651815e-1f, 0.5f}, r);
  return fma(p, b_.multiply(r, r), r);
}

// Bits above the exponent's are shifted out.
Value VectorMath::power_of_two(Value n, int32_t more) {
  constexpr int32_t kBias = 127, kMantissa = 23;
  return b_.as_float(b_.binary(Op::ShiftLeft, b_.add(n, b_.bits(kBias + more)), b_.bits(kMantissa)));
}

Value VectorMath::exp_of_small(Value x) {
  const auto [n, tail] = reduce_exponent(x);
  const Value scale = power_of_two(n);
  return fma(scale, tail, scale);
}

Value VectorMath::exp_of_negative_normal(Value x) {
  return b_.select(b_.less(x, b_.constant(-87)), b_.constant(0), exp_of_small(x));
}

// For x up to 89, by way of exp(x) 2^more, which has to be a normal number where x is above −104: only the last step rounds to a subnormal one.
// `inverse` is 2^−more.
Value VectorMath::scaled_exponential(Value x, Value more, Value inverse) {
  const auto [n, tail] = reduce_exponent(x);
  const Value scale = power_of_two(b_.add(n, more));
  const Value result = b_.multiply(fma(scale, tail, scale), inverse);
  return b_.select(b_.less(x, b_.constant(-104)), b_.constant(0), result);
}

Value VectorMath::exp_of_negative(Value x) { return scaled_exponential(x, b_.bits(64), b_.constant(0x1p-64f)); }

Value VectorMath::exp(Value x) {
  const Value is_negative = b_.less(x, b_.constant(0));
  const Value more = b_.select(is_negative, b_.bits(64), b_.bits(-1)), inverse = b_.select(is_negative, b_.constant(0x1p-64f), b_.constant(2));
  return b_.select(b_.less(b_.constant(89), x), b_.constant(kInfinity), scaled_exponential(x, more, inverse));
}

Value VectorMath::expm1(Value x) {
  const auto [n, tail] = reduce_exponent(x);
  const Value scale = power_of_two(n, -1);
  const Value halved = fma(scale, tail, b_.subtract(scale, b_.constant(0.5f)));
  const Value result = b_.multiply(b_.constant(2), halved);
  return b_.select(b_.less(x, b_.constant(-20)), b_.constant(-1), result);
}

// x = m 2^e with m in [√½, √2); subnormals are first brought up to normal.
Value VectorMath::log(Value x) {
  const Value is_tiny = b_.less(x, b_.constant(std::numeric_limits<float>::min()));
  const Value bits = b_.as_bits(b_.select(is_tiny, b_.multiply(x, b_.constant(0x1p25f)), x));
  const Value exponent = b_.binary(Op::ShiftRight, b_.subtract(bits, b_.bits(0x3f3504f3)), b_.bits(23));
  const Value m = b_.as_float(b_.subtract(bits, b_.binary(Op::ShiftLeft, exponent, b_.bits(23))));
  const Value shift = b_.constant(kShift);
  const Value whole = b_.subtract(b_.as_float(b_.add(exponent, b_.as_bits(shift))), shift);
  const Value e = b_.subtract(whole, b_.select(is_tiny, b_.constant(25), b_.constant(0)));
  const Value f = b_.subtract(m, b_.constant(1));
  const Value p = polynomial({6.915146858e-2f, -1.178969592e-1f, 1.187301651e-1f, -1.238436997e-1f, 1.421865523e-1f,
                              -1.666924953e-1f, 2.000222653e-1f, -2.499998659e-1f, 3.333331048e-1f},
                             f);
  const Value square = b_.multiply(f, f);
  const Value tail = fma(b_.multiply(p, square), f, b_.multiply(e, b_.constant(kLn2Low)));
  Value result = fma(e, b_.constant(kLn2High), b_.add(fma(b_.constant(-0.5f), square, tail), f));
  const Value infinity = b_.constant(kInfinity), zero = b_.constant(0);
  result = b_.select(b_.binary(Op::Equal, x, infinity), infinity, result);
  result = b_.select(b_.binary(Op::Equal, x, zero), b_.constant(-kInfinity), result);
  return b_.select(b_.binary(Op::LessOrEqual, zero, x), result, b_.constant(std::numeric_limits<float>::quiet_NaN()));
}

// log(1 + x) for x in [0, 1]; the second term is what rounding lost.
Value VectorMath::log1p_of_fraction(Value x) {
  const Value one = b_.constant(1), u = b_.add(one, x);
  return b_.add(log(u), b_.divide(b_.subtract(x, b_.subtract(u, one)), u));
}

// 1 / (1 + e^−x), where 1 + e^−x = (1 + 2^n tail) + 2^n. All is scaled by 2^−24: then 2^n is normal wherever the result is neither 1 nor 0.
Value VectorMath::sigmoid(Value x) {
  constexpr int32_t kScale = -24;
  const Value bounded = b_.minimum(b_.constant(70), b_.maximum(b_.constant(-104.5f), x));  // keeps NaN
  const auto [n, tail] = reduce_exponent(negate(bounded));
  const Value power = power_of_two(n, kScale), one = b_.constant(0x1p-24f);
  return b_.divide(one, b_.add(fma(power, tail, one), power));
}

Value VectorMath::softplus(Value x) {
  const Value tail = log1p_of_fraction(exp_of_negative(with_sign(magnitude(x), b_.constant(-1))));
  return b_.add(b_.maximum(x, b_.constant(0)), tail);
}

Value VectorMath::tanh(Value x) {
  const Value t = magnitude(x), z = b_.multiply(x, x);
  const Value p = polynomial(
      {2.147539752e-3f, -8.182677440e-3f, 2.170296945e-2f, -5.394720286e-2f, 1.333321035e-1f, -3.333333135e-1f}, z);
  const Value small = fma(b_.multiply(p, z), x, x);
  const Value bounded = b_.minimum(b_.constant(10), t);  // keeps NaN
  const Value one = b_.constant(1), two = b_.constant(2);
  const Value large = b_.subtract(one, b_.divide(two, b_.add(exp_of_small(b_.multiply(two, bounded)), one)));
  return with_sign(magnitude(b_.select(b_.less(t, b_.constant(0.625f)), small, large)), x);
}

Value VectorMath::erf(Value x) {
  const Value z = b_.multiply(x, x);
  const Value p = polynomial({7.853860734e-5f, -8.010193123e-4f, 5.188327748e-3f, -2.685381100e-2f, 1.128358543e-1f,
                              -3.761262596e-1f, 1.283791661e-1f},
                             z);
  const Value small = fma(p, x, x);
  const Value t = b_.minimum(b_.constant(4), magnitude(x));  // keeps NaN
  const Value q = polynomial({1.863792568e-4f, -2.947658999e-3f, 2.183806710e-2f, -1.031067595e-1f, -6.381448507e-1f,
                              -1.127089143e+0f, -3.415223036e-4f},
                             t);
  const Value large = with_sign(b_.subtract(b_.constant(1), exp_of_small(q)), x);
  return b_.select(b_.less(t, b_.constant(1)), small, large);
}

// x / 2 · (1 + erf(x / √2)), where erf(x / √2) / x is a quotient of polynomials in x² (a minimax fit of the relative error). From the bound on it is 1.
Value VectorMath::gelu(Value x) {
  constexpr float kBound = 5.52f;
  const Value t = b_.minimum(b_.constant(kBound), b_.maximum(b_.constant(-kBound), x));  // keeps NaN
  const Value z = b_.multiply(t, t);
  const Value p = polynomial({4.226341233e-8f, 1.260201589e-5f, 3.581559577e-4f, 9.478441440e-3f, 6.997428834e-2f, 7.978845239e-1f}, z);
  const Value q = polynomial({1.146203203e-6f, 7.627125888e-5f, 1.943764626e-3f, 2.927513979e-2f, 2.543658912e-1f, 1.0f}, z);
  const Value erf = b_.minimum(b_.constant(1), b_.maximum(b_.constant(-1), b_.divide(b_.multiply(t, p), q)));
  const Value half = b_.multiply(b_.constant(0.5f), x);
  return fma(half, erf, half);
}

// x / 2 · (1 + tanh(u)) = x · sigmoid(2 u).
Value VectorMath::gelu_tanh(Value x) {
  constexpr float kTwiceRootOfTwoByPi = 1.59576912f, kCubic = 0.044715f;
  const Value inner = fma(b_.multiply(b_.constant(kCubic), b_.multiply(x, x)), x, x);
  return b_.multiply(x, sigmoid(b_.multiply(b_.constant(kTwiceRootOfTwoByPi), inner)));
}

// asin(t) for t ≤ kSmallSine; beyond that half of acos(t), the angle whose sine is √((1 − t) / 2).
Value VectorMath::arc_of_magnitude(Value t) {
  const Value is_large = b_.less(b_.constant(kSmallSine), t);
  const Value square = b_.select(is_large, fma(b_.constant(-0.5f), t, 0.5f), b_.multiply(t, t));
  const Value root = b_.select(is_large, b_.square_root(square), t);
  const Value p = polynomial({4.524918570e-2f, 8.610062322e-3f, 3.343535135e-2f, 4.431176671e-2f, 7.501624761e-2f, 1.666664031e-1f}, square);
  return fma(b_.multiply(p, square), root, root);
}

Value VectorMath::asin(Value x) {
  const Value t = magnitude(x), arc = arc_of_magnitude(t);
  const Value large = b_.add(fma(b_.constant(-2), arc, kHalfPiLow), b_.constant(kHalfPi));
  return with_sign(b_.select(b_.less(b_.constant(kSmallSine), t), large, arc), x);
}

// From 0 and from π by the doubled angle, from the middle between them by the sine's.
Value VectorMath::acos(Value x) {
  const Value t = magnitude(x), arc = arc_of_magnitude(t), two = b_.constant(2);
  const Value small = b_.subtract(b_.constant(kHalfPi), b_.subtract(with_sign(arc, x), b_.constant(kHalfPiLow)));
  const Value negative = b_.add(fma(b_.constant(-2), arc, 2 * kHalfPiLow), b_.constant(2 * kHalfPi));
  const Value large = b_.select(b_.less(x, b_.constant(0)), negative, b_.multiply(two, arc));
  return b_.select(b_.less(b_.constant(kSmallSine), t), large, small);
}

// Beyond tan(π / 8) from π / 4 on, the tangent of whose difference is (t − 1) / (t + 1), beyond tan(3π / 8) from π / 2 on, −1 / t.
Value VectorMath::atan(Value x) {
  const Value t = magnitude(x), one = b_.constant(1);
  const Value is_middle = b_.less(b_.constant(4.142135624e-1f), t), is_large = b_.less(b_.constant(2.414213562e+0f), t);
  const Value above = b_.select(is_middle, b_.subtract(t, one), t), below = b_.select(is_middle, b_.add(t, one), one);
  const Value r = b_.divide(b_.select(is_large, b_.constant(-1), above), b_.select(is_large, t, below));
  const Value quarters = b_.select(is_middle, b_.select(is_large, one, b_.constant(0.5f)), b_.constant(0));  // of a turn
  const Value z = b_.multiply(r, r);
  const Value p = polynomial({-6.083453027e-2f, 1.059600139e-1f, -1.424384871e-1f, 1.999848943e-1f, -3.333331551e-1f}, z);
  const Value tail = fma(b_.multiply(p, z), r, b_.multiply(quarters, b_.constant(kHalfPiLow)));
  return with_sign(magnitude(fma(quarters, b_.constant(kHalfPi), b_.add(tail, r))), x);
}

}  // namespace anfora::codegen
