// Elementary functions of float that vectorize: straight-line code without branches or tables, so that a plain loop
// over one of them becomes SIMD code. Each keeps NaN, infinities and signed zeros as libm does, and subnormal
// results (except where noted); the errors against the exact value, checked in tests/unit/vector_math_test.cc, are at
// most 2.2 units in the last place (exp, log, erf: 1.1; sin, cos, asin, acos: 1.6; atan: 1.8).
//
// The polynomials are minimax fits (weighted least squares in Chebyshev points, reweighted to equal ripple) of the
// quotient that is left when the leading terms of the series are taken exactly, e.g. (exp(r) - 1 - r) / r^2, to the
// relative accuracy that float needs.
//
// double and the narrow floats: f64 calls libm, the narrow floats compute in float.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

// Without inlining into the loop there is no SIMD code.
#define ANFORA_VECTOR_MATH [[gnu::always_inline]] inline

namespace anfora::kernels {
namespace detail {

inline constexpr float kLog2E = 1.44269504e+0f;
// ln 2 in two parts: n * kLn2High is exact for |n| < 2^9.
inline constexpr float kLn2High = 6.93145752e-1f, kLn2Low = 1.42860677e-6f;

// For -126 <= n <= 127; anything at all for others.
ANFORA_VECTOR_MATH float power_of_two(int32_t n) {
  return std::bit_cast<float>((static_cast<uint32_t>(n) + 127u) << 23);
}

struct ReducedExponent {
  int32_t n;   // the integer next to x / ln 2
  float tail;  // exp(r) - 1 for the rest r = x - n ln 2
};

// For |x| up to some hundreds; the tail of NaN is NaN, and of anything else something.
ANFORA_VECTOR_MATH ReducedExponent reduce_exponent(float x) {
  // Added to a number below 2^22, this leaves its integer part in the low bits.
  constexpr float kShift = 0x1.8p23f;
  float shifted = std::fma(x, kLog2E, kShift);
  float n = shifted - kShift;
  float r = std::fma(n, -kLn2High, x);
  r = std::fma(n, -kLn2Low, r);
  float p = 1.395060215e-3f;
  p = std::fma(p, r, 8.368953131e-3f);
  p = std::fma(p, r, 4.166620597e-2f);
  p = std::fma(p, r, 1.666651815e-1f);
  p = std::fma(p, r, 0.5f);
  uint32_t low = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kShift);
  return {static_cast<int32_t>(low), std::fma(p, r * r, r)};
}

}  // namespace detail

// exp(x) for |x| <= 87, where it is a normal number.
ANFORA_VECTOR_MATH float exp_of_small(float x) {
  auto [n, tail] = detail::reduce_exponent(x);
  float scale = detail::power_of_two(n);
  return std::fma(scale, tail, scale);
}

namespace detail {

// exp(x) for x up to 89, by way of exp(x) 2^more, which has to be a normal number where x is above -104: only the last step rounds to a subnormal one.
// `inverse` is 2^-more.
ANFORA_VECTOR_MATH float scaled_exponential(float x, int32_t more, float inverse) {
  auto [n, tail] = reduce_exponent(x);
  float scale = power_of_two(n + more);
  float result = std::fma(scale, tail, scale) * inverse;
  // A mask rather than a select: after one, GCC would go on with the constant 0 on a path of its own, and not vectorize.
  uint32_t mask = 0u - static_cast<uint32_t>(!(x < -104.0f));
  return std::bit_cast<float>(std::bit_cast<uint32_t>(result) & mask);
}

}  // namespace detail

// exp(x) for x up to 0.
ANFORA_VECTOR_MATH float exp_of_negative(float x) { return detail::scaled_exponential(x, 64, 0x1p-64f); }

ANFORA_VECTOR_MATH float exp(float x) {
  bool is_negative = x < 0.0f;
  float result = detail::scaled_exponential(x, is_negative ? 64 : -1, is_negative ? 0x1p-64f : 2.0f);
  return x > 89.0f ? std::numeric_limits<float>::infinity() : result;
}

// exp(x) - 1, without the cancellation near 0.
ANFORA_VECTOR_MATH float expm1(float x) {
  auto [n, tail] = detail::reduce_exponent(x);
  // 2^n (1 + tail) - 1, halved on the way, as 2^128 is not a float.
  float scale = detail::power_of_two(n - 1);
  float result = 2.0f * std::fma(scale, tail, scale - 0.5f);
  result = x < -20.0f ? -1.0f : result;
  result = x > 89.0f ? std::numeric_limits<float>::infinity() : result;
  return x == 0.0f ? x : result;
}

ANFORA_VECTOR_MATH float log(float x) {
  // x = m 2^e with m in [sqrt(1/2), sqrt(2)); subnormals are first brought up to normal.
  bool tiny = x < std::numeric_limits<float>::min();
  float normal = tiny ? x * 0x1p25f : x;
  int32_t bits = std::bit_cast<int32_t>(normal);
  int32_t shifted = bits - 0x3f3504f3;  // the bits of sqrt(1/2)
  int32_t exponent = shifted >> 23;
  float m = std::bit_cast<float>(bits - (exponent << 23));
  float e = static_cast<float>(exponent) - (tiny ? 25.0f : 0.0f);
  float f = m - 1.0f;
  float p = 6.915146858e-2f;
  p = std::fma(p, f, -1.178969592e-1f);
  p = std::fma(p, f, 1.187301651e-1f);
  p = std::fma(p, f, -1.238436997e-1f);
  p = std::fma(p, f, 1.421865523e-1f);
  p = std::fma(p, f, -1.666924953e-1f);
  p = std::fma(p, f, 2.000222653e-1f);
  p = std::fma(p, f, -2.499998659e-1f);
  p = std::fma(p, f, 3.333331048e-1f);
  float square = f * f;
  float tail = std::fma(p * square, f, e * detail::kLn2Low);
  float result = std::fma(e, detail::kLn2High, std::fma(-0.5f, square, tail) + f);
  const float infinity = std::numeric_limits<float>::infinity();
  result = x == infinity ? infinity : result;
  result = x == 0.0f ? -infinity : result;
  return x < 0.0f || x != x ? std::numeric_limits<float>::quiet_NaN() : result;
}

// log(1 + x) for x in [0, 1].
ANFORA_VECTOR_MATH float log1p_of_fraction(float x) {
  float u = 1.0f + x;
  return kernels::log(u) + (x - (u - 1.0f)) / u;  // the second term: what rounding u lost
}

ANFORA_VECTOR_MATH float tanh(float x) {
  float t = std::fabs(x);
  float z = x * x;
  float p = 2.147539752e-3f;
  p = std::fma(p, z, -8.182677440e-3f);
  p = std::fma(p, z, 2.170296945e-2f);
  p = std::fma(p, z, -5.394720286e-2f);
  p = std::fma(p, z, 1.333321035e-1f);
  p = std::fma(p, z, -3.333333135e-1f);
  float small = std::fma(p * z, x, x);
  float bounded = t > 10.0f ? 10.0f : t;  // from where on the result is 1; keeps NaN
  float large = 1.0f - 2.0f / (exp_of_small(2.0f * bounded) + 1.0f);
  return std::copysign(t < 0.625f ? small : large, x);
}

// 1 / (1 + exp(-x)), where 1 + exp(-x) = (1 + 2^n) + 2^n tail, and what the first sum loses by rounding is added to the second term. All is
// scaled by 2^-24: then 2^n is normal wherever the result is neither 1 nor 0.
ANFORA_VECTOR_MATH float sigmoid(float x) {
  constexpr float kOne = 0x1p-24f;
  float t = x > 70.0f ? -70.0f : -x;
  t = t > 104.5f ? 104.5f : t;  // keeps NaN
  auto [n, tail] = detail::reduce_exponent(t);
  float power = detail::power_of_two(n - 24);
  float sum = kOne + power;
  float lost = kOne - (sum - power);
  return kOne / (sum + std::fma(power, tail, lost));
}

// log(1 + exp(x)).
ANFORA_VECTOR_MATH float softplus(float x) {
  float tail = log1p_of_fraction(exp_of_negative(-std::fabs(x)));
  return (x > 0.0f ? x : 0.0f) + tail;
}

ANFORA_VECTOR_MATH float erf(float x) {
  float z = x * x;
  float p = 7.853860734e-5f;
  p = std::fma(p, z, -8.010193123e-4f);
  p = std::fma(p, z, 5.188327748e-3f);
  p = std::fma(p, z, -2.685381100e-2f);
  p = std::fma(p, z, 1.128358543e-1f);
  p = std::fma(p, z, -3.761262596e-1f);
  p = std::fma(p, z, 1.283791661e-1f);
  float small = std::fma(p, x, x);
  // Beyond 1: erf = 1 - exp(q(|x|)), q a fit of log(erfc); from 4 on this rounds to 1.
  float magnitude = std::fabs(x);
  float t = magnitude > 4.0f ? 4.0f : magnitude;  // keeps NaN
  float q = 1.863792568e-4f;
  q = std::fma(q, t, -2.947658999e-3f);
  q = std::fma(q, t, 2.183806710e-2f);
  q = std::fma(q, t, -1.031067595e-1f);
  q = std::fma(q, t, -6.381448507e-1f);
  q = std::fma(q, t, -1.127089143e+0f);
  q = std::fma(q, t, -3.415223036e-4f);
  float large = std::copysign(1.0f - exp_of_small(q), x);
  return magnitude < 1.0f ? small : large;
}

// Below it n pi / 2 is exact enough in the three parts that are subtracted.
inline constexpr float kLargestAngle = 8192.0f;

namespace detail {

// sin(x) for x in [0, kLargestAngle], or of the angle that many quarters of a turn on.
ANFORA_VECTOR_MATH float sine_of_positive(float x, uint32_t quarters) {
  constexpr float kShift = 0x1.8p23f;  // as in reduce_exponent()
  float shifted = std::fma(x, 6.366197467e-1f, kShift);
  float n = shifted - kShift;
  // pi / 2 in three parts: the first difference is exact, as all of it is a multiple of 2^-23.
  float r = std::fma(n, -1.570796371e+0f, x);
  r = std::fma(n, 4.371138829e-8f, r);
  r = std::fma(n, 1.715124510e-15f, r);
  float z = r * r;
  float s = -1.951716986e-4f;
  s = std::fma(s, z, 8.332177065e-3f);
  s = std::fma(s, z, -1.666665524e-1f);
  float odd = std::fma(s * z, r, r);
  float c = 2.443300764e-5f;
  c = std::fma(c, z, -1.388731529e-3f);
  c = std::fma(c, z, 4.166664556e-2f);
  float even = std::fma(c * z, z, std::fma(-0.5f, z, 1.0f));
  // Odd quarters of a turn: the cosine of the rest; from half a turn on: negative.
  uint32_t quarter = std::bit_cast<uint32_t>(shifted) + quarters;
  uint32_t bits = (quarter & 1u) != 0 ? std::bit_cast<uint32_t>(even) : std::bit_cast<uint32_t>(odd);
  return std::bit_cast<float>(bits ^ (quarter & 2u) << 30);
}

}  // namespace detail

// For |x| <= kLargestAngle.
ANFORA_VECTOR_MATH float sin(float x) {
  uint32_t sign = std::bit_cast<uint32_t>(x) & 0x80000000u;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(detail::sine_of_positive(std::fabs(x), 0)) ^ sign);
}
ANFORA_VECTOR_MATH float cos(float x) { return detail::sine_of_positive(std::fabs(x), 1); }

namespace detail {

// pi / 2 in two parts.
inline constexpr float kHalfPi = 1.57079637e+0f, kHalfPiLow = -4.37113883e-8f;

// Up to here arcs are below 1/2 by both formulas, so that doubling one costs less than a unit in the last place.
inline constexpr float kSmallSine = 0.55f;

// asin(|x|) for |x| up to kSmallSine; beyond that half of acos(|x|), the angle whose sine is sqrt((1 - |x|) / 2).
ANFORA_VECTOR_MATH float arc_of_magnitude(float x) {
  float t = std::fabs(x);
  float square = t > kSmallSine ? std::fma(-0.5f, t, 0.5f) : t * t;
  float root = std::sqrt(square);
  root = t > kSmallSine ? root : t;
  float p = 4.524918570e-2f;
  p = std::fma(p, square, 8.610062322e-3f);
  p = std::fma(p, square, 3.343535135e-2f);
  p = std::fma(p, square, 4.431176671e-2f);
  p = std::fma(p, square, 7.501624761e-2f);
  p = std::fma(p, square, 1.666664031e-1f);
  return std::fma(p * square, root, root);
}

}  // namespace detail

ANFORA_VECTOR_MATH float asin(float x) {
  float arc = detail::arc_of_magnitude(x);
  float large = std::fma(-2.0f, arc, detail::kHalfPiLow) + detail::kHalfPi;
  return std::copysign(std::fabs(x) > detail::kSmallSine ? large : arc, x);
}

ANFORA_VECTOR_MATH float acos(float x) {
  float arc = detail::arc_of_magnitude(x);
  // From 0 and from pi by the doubled angle, from the middle between them by the sine's.
  float signed_arc = std::copysign(arc, x);
  float small = detail::kHalfPi - (signed_arc - detail::kHalfPiLow);
  float negative = std::fma(-2.0f, arc, 2.0f * detail::kHalfPiLow) + 2.0f * detail::kHalfPi;
  float large = x < 0.0f ? negative : 2.0f * arc;
  return std::fabs(x) > detail::kSmallSine ? large : small;
}

// Beyond tan(pi / 8) from pi / 4 on, the tangent of whose difference is (t - 1) / (t + 1), beyond tan(3 pi / 8) from pi / 2 on, -1 / t.
ANFORA_VECTOR_MATH float atan(float x) {
  float t = std::fabs(x);
  bool is_middle = t > 4.142135624e-1f, is_large = t > 2.414213562e+0f;
  float above = is_middle ? t - 1.0f : t, below = is_middle ? t + 1.0f : 1.0f;
  float r = (is_large ? -1.0f : above) / (is_large ? t : below);
  float half = is_large ? 1.0f : 0.5f;
  float quarters = is_middle ? half : 0.0f;  // of a turn
  float z = r * r;
  float p = -6.083453027e-2f;
  p = std::fma(p, z, 1.059600139e-1f);
  p = std::fma(p, z, -1.424384871e-1f);
  p = std::fma(p, z, 1.999848943e-1f);
  p = std::fma(p, z, -3.333331551e-1f);
  float tail = std::fma(p * z, r, quarters * detail::kHalfPiLow);
  return std::copysign(std::fma(quarters, detail::kHalfPi, tail + r), x);
}

inline double exp(double x) { return std::exp(x); }
inline double exp_of_negative(double x) { return std::exp(x); }
inline double expm1(double x) { return std::expm1(x); }
inline double log(double x) { return std::log(x); }
inline double tanh(double x) { return std::tanh(x); }
inline double erf(double x) { return std::erf(x); }
inline double asin(double x) { return std::asin(x); }
inline double acos(double x) { return std::acos(x); }
inline double atan(double x) { return std::atan(x); }
inline double log1p_of_fraction(double x) { return std::log1p(x); }
inline double sigmoid(double x) {
  double e = std::exp(-std::fabs(x));
  return (x >= 0.0 ? 1.0 : e) / (1.0 + e);
}
inline double softplus(double x) { return (x > 0.0 ? x : 0.0) + std::log1p(std::exp(-std::fabs(x))); }

#undef ANFORA_VECTOR_MATH

}  // namespace anfora::kernels
