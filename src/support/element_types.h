// C++ types of tensor elements, the map between them and DType, and the one place that dispatches over
// dtypes: `dispatch<Floats>(dtype, [&]<class T>() { … })`.
#pragma once

#include <bit>
#include <complex>
#include <cstdint>
#include <string>
#include <type_traits>

#include "anfora/dtype.h"
#include "anfora/error.h"
#include "anfora/tensor.h"

namespace anfora {

// Conversions of the narrow formats, to nearest even. `saturate` is ONNX Cast's: out-of-range values
// become the largest finite value instead of infinity or NaN (types without infinity: NaN).
float narrow_to_float(DType dtype, uint8_t bits);
uint8_t float_to_narrow(DType dtype, float value, bool saturate);

struct Float16 {
  uint16_t bits = 0;
  Float16() = default;
  explicit Float16(float value) { bits = std::bit_cast<uint16_t>(static_cast<_Float16>(value)); }
  operator float() const { return static_cast<float>(std::bit_cast<_Float16>(bits)); }
};

struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value) {
    uint32_t u = std::bit_cast<uint32_t>(value);
    bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = nan ? static_cast<uint16_t>((u >> 16) | 0x40) : static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

// fp8 kinds, fp8 scale, fp6 kinds and fp4, one byte each.
template <DType D>
struct NarrowFloat {
  uint8_t bits = 0;
  NarrowFloat() = default;
  explicit NarrowFloat(float value, bool saturate = true) : bits(float_to_narrow(D, value, saturate)) {}
  operator float() const { return narrow_to_float(D, bits); }
};
using Float8E4M3FN = NarrowFloat<DType::F8E4M3FN>;
using Float8E4M3FNUZ = NarrowFloat<DType::F8E4M3FNUZ>;
using Float8E5M2 = NarrowFloat<DType::F8E5M2>;
using Float8E5M2FNUZ = NarrowFloat<DType::F8E5M2FNUZ>;
using Float8E8M0 = NarrowFloat<DType::F8E8M0>;
using Float4E2M1 = NarrowFloat<DType::F4E2M1>;
using Float6E2M3 = NarrowFloat<DType::F6E2M3>;
using Float6E3M2 = NarrowFloat<DType::F6E3M2>;

// Integers of 2 and 4 bits, one byte each; a conversion from a wider integer keeps the low bits.
template <int Bits, bool Signed>
struct NarrowInt {
  using Storage = std::conditional_t<Signed, int8_t, uint8_t>;
  Storage value = 0;
  NarrowInt() = default;
  explicit NarrowInt(int64_t v) {
    uint8_t low = static_cast<uint8_t>(v & ((1 << Bits) - 1));
    if constexpr (Signed) {
      value = static_cast<int8_t>(static_cast<int8_t>(low << (8 - Bits)) >> (8 - Bits));
    } else {
      value = low;
    }
  }
  operator Storage() const { return value; }
  static constexpr int64_t lowest = Signed ? -(1 << (Bits - 1)) : 0;
  static constexpr int64_t highest = Signed ? (1 << (Bits - 1)) - 1 : (1 << Bits) - 1;
};
using Int4 = NarrowInt<4, true>;
using UInt4 = NarrowInt<4, false>;
using Int2 = NarrowInt<2, true>;
using UInt2 = NarrowInt<2, false>;

// Types of the standard library are in anfora/dtype.h.
#define ANFORA_NARROW_TYPES(X)                                                                                    \
  X(F16, Float16) X(BF16, BFloat16) X(F8E4M3FN, Float8E4M3FN) X(F8E4M3FNUZ, Float8E4M3FNUZ)                       \
  X(F8E5M2, Float8E5M2) X(F8E5M2FNUZ, Float8E5M2FNUZ) X(U4, UInt4) X(I4, Int4) X(F4E2M1, Float4E2M1)              \
  X(F8E8M0, Float8E8M0) X(U2, UInt2) X(I2, Int2) X(F6E2M3, Float6E2M3) X(F6E3M2, Float6E3M2)
#define ANFORA_DTYPE_OF(D, T) \
  template <>                 \
  inline constexpr DType dtype_of<T> = DType::D;
ANFORA_NARROW_TYPES(ANFORA_DTYPE_OF)
#undef ANFORA_DTYPE_OF
#undef ANFORA_NARROW_TYPES

template <class... Ts>
struct TypeList {};
template <class A, class B>
struct JoinLists;
template <class... As, class... Bs>
struct JoinLists<TypeList<As...>, TypeList<Bs...>> {
  using type = TypeList<As..., Bs...>;
};
template <class A, class B>
using Join = typename JoinLists<A, B>::type;

using WideFloats = TypeList<float, double>;
using HalfFloats = TypeList<Float16, BFloat16>;
using Floats = TypeList<float, double, Float16, BFloat16>;
using Float8s = TypeList<Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ>;
using Integers = TypeList<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
using SignedIntegers = TypeList<int8_t, int16_t, int32_t, int64_t>;
using UnsignedIntegers = TypeList<uint8_t, uint16_t, uint32_t, uint64_t>;
using Complexes = TypeList<std::complex<float>, std::complex<double>>;
using SubByteIntegers = TypeList<Int4, UInt4, Int2, UInt2>;
using Numbers = Join<Floats, Integers>;  // what ONNX calls "all numeric tensors" (with bf16)
using AllElements =
    Join<Join<Numbers, SubByteIntegers>, Join<Join<Float8s, TypeList<Float8E8M0, Float4E2M1, Float6E2M3, Float6E3M2>>,
                                              Join<Complexes, TypeList<bool, std::string>>>>;

[[noreturn]] void throw_unsupported_dtype(DType dtype);

// Calls f.template operator()<T>() for the T of `dtype` in List; throws Unsupported when it is not there.
template <class List, class F>
decltype(auto) dispatch(DType dtype, F&& f);

namespace detail {
template <class First, class... Rest, class F>
decltype(auto) dispatch_list(TypeList<First, Rest...>, DType dtype, F&& f) {
  if (dtype == dtype_of<First>) return f.template operator()<First>();
  if constexpr (sizeof...(Rest) > 0) {
    return dispatch_list(TypeList<Rest...>{}, dtype, std::forward<F>(f));
  } else {
    throw_unsupported_dtype(dtype);
  }
}
}  // namespace detail

template <class List, class F>
decltype(auto) dispatch(DType dtype, F&& f) {
  return detail::dispatch_list(List{}, dtype, std::forward<F>(f));
}

// For code that only moves elements: calls f with an unsigned integer type of the element's size
// (16 bytes: std::complex<double>; strings: std::string). Five instantiations serve all dtypes.
template <class F>
decltype(auto) dispatch_by_size(DType dtype, F&& f) {
  if (dtype == DType::String) return f.template operator()<std::string>();
  switch (element_bytes(dtype)) {
    case 1: return f.template operator()<uint8_t>();
    case 2: return f.template operator()<uint16_t>();
    case 4: return f.template operator()<uint32_t>();
    case 8: return f.template operator()<uint64_t>();
    case 16: return f.template operator()<std::complex<double>>();
    default: throw_unsupported_dtype(dtype);
  }
}

// Whether every value of `from` is one of `to`: a cast there and back loses nothing. False where that is not known.
bool is_widening(DType from, DType to);

// The type arithmetic happens in: float for the narrow floats, T itself otherwise.
template <class T>
using ComputeType = std::conditional_t<std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>, float, T>;

}  // namespace anfora
