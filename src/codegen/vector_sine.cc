// Sine and cosine of every float. The angle less the nearest multiple of π/2 is what the polynomials are of; the number of quarters decides
// which of them, and the sign.
//
// Near angles: the multiple is subtracted in parts of π/2 that are exact as products (Cody and Waite 1980). Far ones, of which there are few,
// take a branch: x = m 2^s with an integer m, and of 2/π only the bits matter that leave m 2^s 2/π below 4 quarters (Payne and Hanek 1983):
//
//     2/π = 0.1010 0010 1111 1001 1000 0011 0110 1110 …
//                  ╰── 96 bits from the (s − 1)-th on ──╯   times m, of which the upper 64 bits are quarters and the rest of one
#include <array>
#include <limits>

#include "codegen/vector_math.h"

namespace anfora::codegen {
namespace {

// That n π/2 is exact enough in the parts that are subtracted.
constexpr float kLargestAngle = 8192;
constexpr float kQuartersOfRadian = 6.366197467e-1f;

constexpr int32_t word(uint32_t bits) { return static_cast<int32_t>(bits); }

}  // namespace

Value VectorMath::sin(Value x) {
  const Value sign = b_.binary(Op::And, b_.as_bits(x), b_.bits(INT32_MIN));
  return b_.as_float(b_.binary(Op::Xor, b_.as_bits(sine(magnitude(x), 0)), sign));
}
Value VectorMath::cos(Value x) { return sine(magnitude(x), 1); }

Value VectorMath::sine(Value x, int quarters) {
  const Value is_far = negation(b_.binary(Op::LessOrEqual, x, b_.constant(kLargestAngle)));  // or NaN
  const Type type = b_.type(x);
  const Value is_one_far = type.lanes == 1 ? is_far : b_.of_lanes(Op::AnyOfLanes, is_far);
  return b_.choose(
      is_one_far, type, [&] { return b_.select(is_far, sine_of_far(x, quarters), sine_of_near(x, quarters)); },
      [&] { return sine_of_near(x, quarters); });
}

Value VectorMath::sine_of_near(Value x, int quarters) {
  const Value turned = b_.multiply(x, b_.constant(kQuartersOfRadian)), n = round(turned);
  Value r = x;
  if (isa_.has_fma) {
    for (float part : {1.570796371e+0f, -4.371138829e-8f, -1.715124510e-15f}) r = fma(n, b_.constant(-part), r);
  } else {  // of 11 bits each, but for the last; what the third leaves over goes to it
    auto times = [&](float part) { return b_.multiply(n, b_.constant(part)); };
    r = b_.subtract(b_.subtract(r, times(1.57031250e+0f)), times(4.83751297e-4f));
    const Pair rest = exact_sum(r, times(-7.54953362e-8f));
    r = b_.add(rest.high, b_.subtract(rest.low, times(2.56334407e-12f)));
  }
  return sine_of_rest(r, b_.add(b_.to_nearest(turned), b_.bits(quarters)));
}

Value VectorMath::high_product(Value a, Value b) {
  constexpr int32_t kLow12 = 0xfff, kLow16 = 0xffff;
  auto shifted = [&](Value x, int32_t bits) { return b_.binary(Op::ShiftRight, x, b_.bits(bits)); };
  const Value a_high = shifted(a, 12), a_low = b_.binary(Op::And, a, b_.bits(kLow12));
  const Value b_high = b_.binary(Op::And, shifted(b, 16), b_.bits(kLow16)), b_low = b_.binary(Op::And, b, b_.bits(kLow16));
  Value sum = shifted(b_.multiply(a_low, b_low), 12);  // in units of 2¹²
  sum = shifted(b_.add(sum, b_.multiply(a_high, b_low)), 4);
  sum = shifted(b_.add(sum, b_.multiply(a_low, b_high)), 12);
  return shifted(b_.add(sum, b_.multiply(a_high, b_high)), 4);
}

Value VectorMath::sine_of_far(Value x, int quarters) {
  constexpr int32_t kMantissaBits = 23, kMantissa = 0x7fffff, kHidden = 0x800000, kWordBits = 32, kAllButSign = INT32_MAX;
  // 2/π behind a word of zeros.
  constexpr std::array kWords{word(0),          word(0xa2f9836e), word(0x4e441529), word(0xfc2757d1),
                              word(0xf534ddc0), word(0xdb629599), word(0x3c439041), word(0xfe5163ab)};
  constexpr size_t kWindow = 3;                          // words of it
  constexpr size_t kBegins = kWords.size() - kWindow;    // where it may begin
  constexpr int32_t kExponentOfFirst = 127 + 23 + 2 - 32;  // of an x whose window begins with the words
  auto both = [&](Value a, int32_t bits) { return b_.binary(Op::And, a, b_.bits(bits)); };
  auto right = [&](Value a, Value by) { return b_.binary(Op::ShiftRight, a, by); };
  const Value bits = b_.as_bits(x);
  const Value m = b_.binary(Op::Or, both(bits, kMantissa), b_.bits(kHidden));
  const Value begin = b_.subtract(right(bits, b_.bits(kMantissaBits)), b_.bits(kExponentOfFirst));
  const Value first = right(begin, b_.bits(5)), shift = both(begin, kWordBits - 1);
  const Value shift_back = b_.subtract(b_.bits(kWordBits - 1), shift);
  auto word_at = [&](size_t i) {  // of the window's first word, and so many on
    Value chosen = b_.bits(kWords[kBegins - 1 + i]);
    for (size_t k = kBegins - 1; k-- > 0;)
      chosen = b_.select(b_.less(first, b_.bits(static_cast<int32_t>(k + 1))), b_.bits(kWords[k + i]), chosen);
    return chosen;
  };
  std::array<Value, kWindow> window{};
  for (size_t i = 0; i < kWindow; ++i) {
    const Value rest = right(both(right(word_at(i + 1), b_.bits(1)), kAllButSign), shift_back);
    window[i] = b_.binary(Op::Or, b_.binary(Op::ShiftLeft, word_at(i), shift), rest);
  }
  auto unsigned_less = [&](Value a, Value b) {
    const Value sign = b_.bits(INT32_MIN);
    return b_.less(b_.binary(Op::Xor, a, sign), b_.binary(Op::Xor, b, sign));
  };
  const Value middle = b_.multiply(m, window[1]);
  const Value low = b_.add(middle, high_product(m, window[2]));
  const Value carry = b_.select(unsigned_less(low, middle), b_.bits(1), b_.bits(0));
  const Value high = b_.add(b_.add(b_.multiply(m, window[0]), high_product(m, window[1])), carry);
  // 2⁶² of (high, low) are a quarter: the nearest number of them, and what is left, as a sum of floats that is exact in what matters.
  const Value n = both(right(b_.add(high, b_.bits(1 << 29)), b_.bits(30)), 3);
  const Value left = b_.subtract(high, b_.binary(Op::ShiftLeft, n, b_.bits(30)));
  constexpr int32_t kLow12 = 0xfff, kLow20 = 0xfffff;
  auto scaled = [&](Value a, float unit) { return b_.multiply(b_.to_float(a), b_.constant(unit)); };
  const Value next = b_.binary(Op::Or, b_.binary(Op::ShiftLeft, both(left, kLow12), b_.bits(12)),
                               both(right(low, b_.bits(20)), kLow12));
  const auto [sum, lost] = exact_sum(scaled(both(left, ~kLow12), 0x1p-30f), scaled(next, 0x1p-42f));
  const Value tail = b_.add(lost, scaled(both(low, kLow20), 0x1p-62f));
  const Value quarter = b_.constant(1.570796371e+0f);
  const Pair product = exact_product(sum, quarter);
  const Value r = b_.add(product.high, b_.add(product.low, fma(tail, quarter, b_.multiply(sum, b_.constant(-4.371138829e-8f)))));
  const Value result = sine_of_rest(r, b_.add(n, b_.bits(quarters)));
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  return b_.select(b_.less(x, b_.constant(kInfinite)), result, b_.constant(std::numeric_limits<float>::quiet_NaN()));
}

// Odd quarters of a turn: the cosine of the rest; from half a turn on: negative.
Value VectorMath::sine_of_rest(Value r, Value quarter) {
  const Value z = b_.multiply(r, r);
  const Value s = polynomial({-1.951716986e-4f, 8.332177065e-3f, -1.666665524e-1f}, z);
  const Value odd = fma(b_.multiply(s, z), r, r);
  const Value c = polynomial({2.443300764e-5f, -1.388731529e-3f, 4.166664556e-2f}, z);
  const Value even = fma(b_.multiply(c, z), z, fma(b_.constant(-0.5f), z, b_.constant(1)));
  const Value is_even = b_.less(b_.bits(0), b_.binary(Op::And, quarter, b_.bits(1)));
  const Value sign = b_.binary(Op::ShiftLeft, b_.binary(Op::And, quarter, b_.bits(2)), b_.bits(30));
  return b_.as_float(b_.binary(Op::Xor, b_.as_bits(b_.select(is_even, even, odd)), sign));
}

}  // namespace anfora::codegen
