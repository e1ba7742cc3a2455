// Conversions of the one-byte float formats. Decoding is a table of 256 floats a format; encoding searches
// nothing: it rescales to the format's mantissa width and rounds to nearest even, as IEEE 754 would.
// Formats: OCP 8-bit floating point (E4M3FN, E5M2), the FNUZ kinds of Graphcore and AMD, OCP microscaling
// formats (E8M0 scale, E2M1, E2M3, E3M2).
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "support/element_types.h"

namespace anfora {
namespace {

struct Format {
  int exponent_bits, mantissa_bits, bias;
  bool has_infinity;    // IEEE-like: all-ones exponent is Inf/NaN
  bool finite_nan_top;  // FN: only the all-ones pattern is NaN
  bool unsigned_zero;   // FNUZ: 0x80 is the one NaN, no negative zero
};

constexpr Format format_of(DType dtype) {
  switch (dtype) {
    case DType::F8E4M3FN: return {4, 3, 7, false, true, false};
    case DType::F8E4M3FNUZ: return {4, 3, 8, false, false, true};
    case DType::F8E5M2: return {5, 2, 15, true, false, false};
    case DType::F8E5M2FNUZ: return {5, 2, 16, false, false, true};
    // Every pattern of these is finite.
    case DType::F6E2M3: return {2, 3, 1, false, false, false};
    case DType::F6E3M2: return {3, 2, 3, false, false, false};
    default: return {2, 1, 1, false, false, false};  // F4E2M1
  }
}

float decode(const Format& f, uint8_t bits) {
  int width = 1 + f.exponent_bits + f.mantissa_bits;
  uint32_t sign = (bits >> (width - 1)) & 1;
  uint32_t exponent = (bits >> f.mantissa_bits) & ((1u << f.exponent_bits) - 1);
  uint32_t mantissa = bits & ((1u << f.mantissa_bits) - 1);
  uint32_t top = (1u << f.exponent_bits) - 1;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  if (f.unsigned_zero && sign && exponent == 0 && mantissa == 0) return nan;
  if (f.finite_nan_top && exponent == top && mantissa == (1u << f.mantissa_bits) - 1) return nan;
  if (f.has_infinity && exponent == top) {
    if (mantissa) return nan;
    return sign ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
  }
  float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), 1 - f.bias - f.mantissa_bits)
                                  : std::ldexp(static_cast<float>(mantissa | (1u << f.mantissa_bits)),
                                               static_cast<int>(exponent) - f.bias - f.mantissa_bits);
  return sign ? -magnitude : magnitude;
}

uint8_t largest_finite(const Format& f) {
  uint8_t all = static_cast<uint8_t>((1u << (f.exponent_bits + f.mantissa_bits)) - 1);
  if (f.has_infinity) return static_cast<uint8_t>(all - (1u << f.mantissa_bits));
  return f.finite_nan_top ? static_cast<uint8_t>(all - 1) : all;
}

uint8_t nan_pattern(const Format& f, uint8_t sign_bit) {
  if (f.unsigned_zero) return 0x80;
  return static_cast<uint8_t>(sign_bit | ((1u << (f.exponent_bits + f.mantissa_bits)) - 1));
}

uint8_t encode(const Format& f, float value, bool saturate) {
  int width = 1 + f.exponent_bits + f.mantissa_bits;
  uint8_t sign_bit = std::signbit(value) ? static_cast<uint8_t>(1u << (width - 1)) : 0;
  bool has_nan = f.unsigned_zero || f.finite_nan_top || f.has_infinity;
  if (std::isnan(value)) {
    // Where the format has no NaN: −0, as ml_dtypes, and with it ONNX's reference, does for the NaN that is usual. Not by its
    // sign, which means nothing, and which rewrites do not keep.
    return has_nan ? nan_pattern(f, sign_bit) : static_cast<uint8_t>(1u << (width - 1));
  }
  auto out_of_range = [&]() -> uint8_t {
    if (saturate || !has_nan) return static_cast<uint8_t>(sign_bit | largest_finite(f));
    if (f.has_infinity) return static_cast<uint8_t>(sign_bit | (((1u << f.exponent_bits) - 1) << f.mantissa_bits));
    return nan_pattern(f, sign_bit);
  };
  if (std::isinf(value)) return out_of_range();
  double magnitude = std::fabs(static_cast<double>(value));
  if (magnitude == 0) return f.unsigned_zero ? 0 : sign_bit;
  int exponent = std::max(std::ilogb(magnitude), 1 - f.bias);
  double scaled = std::nearbyint(std::ldexp(magnitude, f.mantissa_bits - exponent));  // nearest even
  uint32_t mantissa = static_cast<uint32_t>(scaled);
  if (mantissa == (2u << f.mantissa_bits)) {
    mantissa >>= 1;
    ++exponent;
  }
  // A subnormal has no implicit bit, and carries into the first normal by itself.
  uint32_t pattern = mantissa < (1u << f.mantissa_bits)
                         ? mantissa
                         : ((static_cast<uint32_t>(exponent + f.bias) << f.mantissa_bits) |
                            (mantissa & ((1u << f.mantissa_bits) - 1)));
  if (pattern > largest_finite(f)) return out_of_range();
  if (pattern == 0 && f.unsigned_zero) return 0;
  return static_cast<uint8_t>(sign_bit | pattern);
}

float decode_scale(uint8_t bits) {  // E8M0: 2^(bits - 127), 0xff is NaN
  return bits == 0xff ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, static_cast<int>(bits) - 127);
}

uint8_t encode_scale(float value, bool saturate) {
  if (std::isnan(value)) return 0xff;
  float magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return saturate ? 0xfe : 0xff;
  if (magnitude == 0) return 0;
  int exponent = std::ilogb(magnitude);
  if (magnitude >= std::ldexp(1.5f, exponent)) ++exponent;  // nearest, ties up
  if (exponent > 127) return saturate ? 0xfe : 0xff;
  return static_cast<uint8_t>(std::max(exponent + 127, 0));
}

using Table = std::array<float, 256>;

Table make_table(DType dtype) {
  Table table;
  for (int i = 0; i < 256; ++i) {
    table[i] = dtype == DType::F8E8M0 ? decode_scale(static_cast<uint8_t>(i))
                                      : decode(format_of(dtype), static_cast<uint8_t>(i));
  }
  return table;
}

}  // namespace

float narrow_to_float(DType dtype, uint8_t bits) {
  static const Table e4m3fn = make_table(DType::F8E4M3FN), e4m3fnuz = make_table(DType::F8E4M3FNUZ),
                     e5m2 = make_table(DType::F8E5M2), e5m2fnuz = make_table(DType::F8E5M2FNUZ),
                     e8m0 = make_table(DType::F8E8M0), e2m1 = make_table(DType::F4E2M1),
                     e2m3 = make_table(DType::F6E2M3), e3m2 = make_table(DType::F6E3M2);
  switch (dtype) {
    case DType::F8E4M3FN: return e4m3fn[bits];
    case DType::F8E4M3FNUZ: return e4m3fnuz[bits];
    case DType::F8E5M2: return e5m2[bits];
    case DType::F8E5M2FNUZ: return e5m2fnuz[bits];
    case DType::F8E8M0: return e8m0[bits];
    case DType::F6E2M3: return e2m3[bits];
    case DType::F6E3M2: return e3m2[bits];
    default: return e2m1[bits];
  }
}

uint8_t float_to_narrow(DType dtype, float value, bool saturate) {
  return dtype == DType::F8E8M0 ? encode_scale(value, saturate) : encode(format_of(dtype), value, saturate);
}

}  // namespace anfora
