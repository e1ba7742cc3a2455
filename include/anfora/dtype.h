// Element types of tensors: the full set of ONNX's TensorProto, with the same numbers, so that a
// model file's value converts by a checked cast.
//
// Elements narrower than a byte (i4, u4, i2, u2, f4e2m1, f6e2m3, f6e3m2) take one byte each in memory; they are packed
// only in files. The narrow float types are storage types: arithmetic on them happens in float.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace [[gnu::visibility("default")]] anfora {

enum class DType : uint8_t {
  Undefined = 0,
  F32 = 1,
  U8 = 2,
  I8 = 3,
  U16 = 4,
  I16 = 5,
  I32 = 6,
  I64 = 7,
  String = 8,
  Bool = 9,
  F16 = 10,
  F64 = 11,
  U32 = 12,
  U64 = 13,
  C64 = 14,
  C128 = 15,
  BF16 = 16,
  F8E4M3FN = 17,
  F8E4M3FNUZ = 18,
  F8E5M2 = 19,
  F8E5M2FNUZ = 20,
  U4 = 21,
  I4 = 22,
  F4E2M1 = 23,
  F8E8M0 = 24,
  U2 = 25,
  I2 = 26,
  F6E2M3 = 27,
  F6E3M2 = 28,
};
inline constexpr int kDTypeCount = 29;

// Short name as in the text form: "f32", "bf16", "i64", "string", "f8e4m3fn".
std::string_view name(DType dtype);
// The reverse of name(); empty when the name is not one.
std::optional<DType> dtype_from_name(std::string_view name);

// Bytes that one element takes in memory (a string: sizeof(std::string)).
size_t element_bytes(DType dtype);
// Significant bits of one element in a file: 4 for i4, 32 for f32; 0 for strings.
int element_bits(DType dtype);

// The element type that a C++ type stands for; Undefined where there is none.
template <class T>
inline constexpr DType dtype_of = DType::Undefined;
template <>
inline constexpr DType dtype_of<float> = DType::F32;
template <>
inline constexpr DType dtype_of<double> = DType::F64;
template <>
inline constexpr DType dtype_of<int8_t> = DType::I8;
template <>
inline constexpr DType dtype_of<int16_t> = DType::I16;
template <>
inline constexpr DType dtype_of<int32_t> = DType::I32;
template <>
inline constexpr DType dtype_of<int64_t> = DType::I64;
template <>
inline constexpr DType dtype_of<uint8_t> = DType::U8;
template <>
inline constexpr DType dtype_of<uint16_t> = DType::U16;
template <>
inline constexpr DType dtype_of<uint32_t> = DType::U32;
template <>
inline constexpr DType dtype_of<uint64_t> = DType::U64;
template <>
inline constexpr DType dtype_of<bool> = DType::Bool;
template <>
inline constexpr DType dtype_of<std::string> = DType::String;
template <>
inline constexpr DType dtype_of<std::complex<float>> = DType::C64;
template <>
inline constexpr DType dtype_of<std::complex<double>> = DType::C128;

bool is_float(DType dtype);           // every floating point type, narrow ones included
bool is_narrow_float(DType dtype);    // f16, bf16, fp8, fp6 and fp4 kinds: stored narrow, computed in float
bool is_signed_integer(DType dtype);  // i2 … i64
bool is_unsigned_integer(DType dtype);
bool is_integer(DType dtype);
bool is_complex(DType dtype);
bool is_sub_byte(DType dtype);  // packed in files: i4, u4, i2, u2, f4e2m1, f6e2m3, f6e3m2

}  // namespace anfora
