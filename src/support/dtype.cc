#include "anfora/dtype.h"

#include <array>
#include <cmath>
#include <string>

#include "support/element_types.h"
#include "support/integers.h"

namespace anfora {
namespace {

enum class Class : uint8_t { None, Float, Signed, Unsigned, Bool, Complex, String };

struct Description {
  std::string_view name;
  Class kind;
  uint8_t bits;   // in a file
  uint8_t bytes;  // in memory
};

constexpr std::array<Description, kDTypeCount> kDescriptions = {{
    {"undefined", Class::None, 0, 0},
    {"f32", Class::Float, 32, 4},
    {"u8", Class::Unsigned, 8, 1},
    {"i8", Class::Signed, 8, 1},
    {"u16", Class::Unsigned, 16, 2},
    {"i16", Class::Signed, 16, 2},
    {"i32", Class::Signed, 32, 4},
    {"i64", Class::Signed, 64, 8},
    {"string", Class::String, 0, sizeof(std::string)},
    {"bool", Class::Bool, 8, 1},
    {"f16", Class::Float, 16, 2},
    {"f64", Class::Float, 64, 8},
    {"u32", Class::Unsigned, 32, 4},
    {"u64", Class::Unsigned, 64, 8},
    {"c64", Class::Complex, 64, 8},
    {"c128", Class::Complex, 128, 16},
    {"bf16", Class::Float, 16, 2},
    {"f8e4m3fn", Class::Float, 8, 1},
    {"f8e4m3fnuz", Class::Float, 8, 1},
    {"f8e5m2", Class::Float, 8, 1},
    {"f8e5m2fnuz", Class::Float, 8, 1},
    {"u4", Class::Unsigned, 4, 1},
    {"i4", Class::Signed, 4, 1},
    {"f4e2m1", Class::Float, 4, 1},
    {"f8e8m0", Class::Float, 8, 1},
    {"u2", Class::Unsigned, 2, 1},
    {"i2", Class::Signed, 2, 1},
    {"f6e2m3", Class::Float, 6, 1},
    {"f6e3m2", Class::Float, 6, 1},
}};

const Description& describe(DType dtype) {
  size_t i = static_cast<size_t>(dtype);
  return kDescriptions[i < kDescriptions.size() ? i : 0];
}

}  // namespace

std::string_view name(DType dtype) { return describe(dtype).name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (int i = 1; i < kDTypeCount; ++i) {
    if (kDescriptions[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

size_t element_bytes(DType dtype) { return describe(dtype).bytes; }
int element_bits(DType dtype) { return describe(dtype).bits; }
bool is_float(DType dtype) { return describe(dtype).kind == Class::Float; }
bool is_narrow_float(DType dtype) { return is_float(dtype) && describe(dtype).bits < 32; }
bool is_signed_integer(DType dtype) { return describe(dtype).kind == Class::Signed; }
bool is_unsigned_integer(DType dtype) { return describe(dtype).kind == Class::Unsigned; }
bool is_integer(DType dtype) { return is_signed_integer(dtype) || is_unsigned_integer(dtype); }
bool is_complex(DType dtype) { return describe(dtype).kind == Class::Complex; }
bool is_sub_byte(DType dtype) { return describe(dtype).bits > 0 && describe(dtype).bits < 8; }

void throw_unsupported_dtype(DType dtype) {
  throw Error(ErrorCode::Unsupported, "element type " + std::string(name(dtype)) + " is not supported here");
}

bool is_widening(DType from, DType to) {
  if (from == to) return true;
  if (from == DType::Bool) return has_integers(to, 0, 1);
  if (is_integer(from)) {
    const bool is_signed = is_signed_integer(from);
    const double end = std::ldexp(1, element_bits(from) - (is_signed ? 1 : 0));
    return has_integers(to, is_signed ? -end : 0, end - 1);
  }
  if (from == DType::F16 || from == DType::BF16) return to == DType::F32 || to == DType::F64;
  return from == DType::F32 && to == DType::F64;
}

}  // namespace anfora
