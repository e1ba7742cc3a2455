// Keys by which elements of every dtype compare as unsigned integers, so that sorting needs one instantiation.
//
// Unsigned integers are their own keys; signed ones have the sign bit flipped. Of floating point numbers the bits are
// the magnitude: positive ones get the sign bit set, negative ones are complemented. -0 is 0, and every NaN is the one
// largest key, as numpy sorts.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "support/element_types.h"

namespace anfora::kernels {

// 32 bits for elements of up to 4 bytes, otherwise 64.
template <class T>
using OrderKey = std::conditional_t<sizeof(T) <= 4, uint32_t, uint64_t>;

template <class T>
OrderKey<T> order_key(T element) {
  using Key = OrderKey<T>;
  using Value = ComputeType<T>;  // narrow floats compare as float
  if constexpr (std::is_floating_point_v<Value>) {
    auto value = static_cast<Value>(element);
    if (std::isnan(value)) return ~Key{0};
    if (value == 0) value = 0;
    constexpr int sign_bit = 8 * sizeof(Key) - 1;
    const Key bits = std::bit_cast<Key>(value), is_negative = bits >> sign_bit;
    return bits ^ ((Key{0} - is_negative) | Key{1} << sign_bit);  // without a branch: signs are random
  } else if constexpr (std::is_signed_v<T>) {
    constexpr Key sign = Key{1} << (8 * sizeof(Key) - 1);
    return static_cast<Key>(element) ^ sign;
  } else {
    return static_cast<Key>(element);
  }
}

}  // namespace anfora::kernels
