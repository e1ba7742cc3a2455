// Arithmetic as CPython's objects do it: integers of any size, floats and complex numbers bit by bit.
#include <algorithm>
#include <cerrno>
#include <cmath>

#include "frontend/python/operators.h"

namespace anfora::python {
namespace {

using Complex = std::complex<double>;
using Result = std::optional<Constant>;

// The numeric types, each part of the next. A bool is an integer.
enum class Numeric { Integer, Float, Complex };

std::optional<Numeric> numeric(const Constant& c) {
  if (c.is<bool>() || c.is<Integer>()) return Numeric::Integer;
  if (c.is<double>()) return Numeric::Float;
  return c.is<Complex>() ? std::optional(Numeric::Complex) : std::nullopt;
}

Integer integer_of(const Constant& c) { return c.is<bool>() ? Integer(c.as<bool>() ? 1 : 0) : c.as<Integer>(); }
std::optional<double> float_of(const Constant& c) { return c.is<double>() ? c.as<double>() : to_double(integer_of(c)); }
std::optional<Complex> complex_of(const Constant& c) {
  if (c.is<Complex>()) return c.as<Complex>();
  const auto real = float_of(c);
  return real ? std::optional(Complex(*real, 0)) : std::nullopt;
}

unsigned bits_of(const Integer& i) { return i == 0 ? 0 : msb(Integer(abs(i))) + 1; }

Integer floor_divide(const Integer& a, const Integer& b) {
  Integer quotient, remainder;
  divide_qr(a, b, quotient, remainder);
  if (remainder != 0 && (remainder < 0) != (b < 0)) --quotient;
  return quotient;
}

// a / b, rounded once.
std::optional<double> true_divide(const Integer& a, const Integer& b) {
  const bool is_negative = (a < 0) != (b < 0);
  const Integer m = abs(a), n = abs(b);
  if (m == 0) return is_negative ? -0.0 : 0.0;
  constexpr int kExact = 53, kLeast = -1074;  // bits of a float; the exponent of the smallest
  if (bits_of(m) <= kExact && bits_of(n) <= kExact) return a.convert_to<double>() / b.convert_to<double>();
  // A quotient of more bits than a float has, or in units of the smallest float.
  int shift = std::min(66 - (static_cast<int>(bits_of(m)) - static_cast<int>(bits_of(n))), -kLeast);
  Integer quotient, remainder;
  divide_qr(shift > 0 ? Integer(m << shift) : m, shift < 0 ? Integer(n << -shift) : n, quotient, remainder);
  if (bits_of(quotient) <= kExact) {  // no float between two units: round here
    const Integer twice = remainder * 2;
    if (twice > n || (twice == n && bit_test(quotient, 0))) ++quotient;
  } else {  // two more bits, of which the last stands for the remainder
    quotient = (quotient << 2) | (remainder != 0 ? 1 : 0);
    shift += 2;
  }
  const auto rounded = to_double(quotient);
  const double value = std::ldexp(*rounded, -shift);
  if (std::isinf(value)) return std::nullopt;
  return is_negative ? -value : value;
}

Result raise_float(double base, double exponent);

Result integer_power(const Integer& base, const Integer& exponent) {
  if (exponent < 0) {
    const auto b = to_double(base), e = to_double(exponent);
    return b && e ? raise_float(*b, *e) : std::nullopt;
  }
  if (exponent == 0) return Constant{Integer(1)};
  if (base == 0) return Constant{Integer(0)};
  if (exponent > kMaxFoldedBits || bits_of(base) > kMaxFoldedBits / static_cast<unsigned>(exponent)) return {};
  return Constant{Integer(pow(base, static_cast<unsigned>(exponent)))};
}

Result integer_shift(Kind op, const Integer& a, const Integer& by) {
  if (by < 0) return {};
  if (op == Kind::RShift) {
    if (by > bits_of(a)) return Constant{Integer(a < 0 ? -1 : 0)};
    return Constant{floor_divide(a, Integer(1) << static_cast<unsigned>(by))};
  }
  if (a == 0 || by == 0) return Constant{a};
  if (by > kMaxFoldedBits || bits_of(a) > kMaxFoldedBits - static_cast<unsigned>(by)) return {};
  return Constant{Integer(a << static_cast<unsigned>(by))};
}

Result integer_binary(Kind op, const Constant& left, const Constant& right) {
  const Integer a = integer_of(left), b = integer_of(right);
  auto bitwise = [&](Integer result) -> Result {
    if (left.is<bool>() && right.is<bool>()) return Constant{result != 0};
    return Constant{std::move(result)};
  };
  switch (op) {
    case Kind::Add: return Constant{Integer(a + b)};
    case Kind::Sub: return Constant{Integer(a - b)};
    case Kind::Mult:
      if (a != 0 && b != 0 && bits_of(a) + bits_of(b) > kMaxFoldedBits) return {};
      return Constant{Integer(a * b)};
    case Kind::Div: {
      if (b == 0) return {};
      const auto quotient = true_divide(a, b);
      return quotient ? Result(Constant{*quotient}) : std::nullopt;
    }
    case Kind::FloorDiv: return b == 0 ? Result() : Constant{floor_divide(a, b)};
    case Kind::Mod: return b == 0 ? Result() : Constant{Integer(a - floor_divide(a, b) * b)};
    case Kind::Pow: return integer_power(a, b);
    case Kind::LShift:
    case Kind::RShift: return integer_shift(op, a, b);
    case Kind::BitOr: return bitwise(a | b);
    case Kind::BitXor: return bitwise(a ^ b);
    case Kind::BitAnd: return bitwise(a & b);
    default: return {};
  }
}

// The remainder has the sign of the divisor; the quotient is near a whole number, and rounded to it.
double float_remainder(double a, double b) {
  double remainder = std::fmod(a, b);
  if (remainder == 0) return std::copysign(0.0, b);
  if ((b < 0) != (remainder < 0)) remainder += b;
  return remainder;
}
double float_floor_divide(double a, double b) {
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0 && (b < 0) != (remainder < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

Result complex_power(Complex base, Complex exponent);

Result raise_float(double base, double exponent) {
  if (base == 0 && exponent < 0 && std::isfinite(exponent)) return {};
  if (base < 0 && std::isfinite(base) && std::isfinite(exponent) && exponent != std::floor(exponent)) return complex_power(base, exponent);
  const double result = std::pow(base, exponent);
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent)) return {};
  return Constant{result};
}

Result float_binary(Kind op, double a, double b) {
  switch (op) {
    case Kind::Add: return Constant{a + b};
    case Kind::Sub: return Constant{a - b};
    case Kind::Mult: return Constant{a * b};
    case Kind::Div: return b == 0 ? Result() : Constant{a / b};
    case Kind::FloorDiv: return b == 0 ? Result() : Constant{float_floor_divide(a, b)};
    case Kind::Mod: return b == 0 ? Result() : Constant{float_remainder(a, b)};
    case Kind::Pow: return raise_float(a, b);
    default: return {};
  }
}

// std::complex multiplies and divides by other formulas, with other roundings.
Complex product(Complex a, Complex b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// Smith's algorithm (CACM 116): by the ratio of the parts of the divisor.
std::optional<Complex> quotient(Complex a, Complex b) {
  const double real = std::fabs(b.real()), imaginary = std::fabs(b.imag());
  if (real >= imaginary) {
    if (real == 0) return {};
    const double ratio = b.imag() / b.real(), denominator = b.real() + b.imag() * ratio;
    return Complex((a.real() + a.imag() * ratio) / denominator, (a.imag() - a.real() * ratio) / denominator);
  }
  if (imaginary >= real) {
    const double ratio = b.real() / b.imag(), denominator = b.real() * ratio + b.imag();
    return Complex((a.real() * ratio + a.imag()) / denominator, (a.imag() * ratio - a.real()) / denominator);
  }
  return Complex(NAN, NAN);
}

std::optional<Complex> small_power(Complex base, int exponent) {
  Complex result(1, 0), square = base;
  for (int rest = std::abs(exponent); rest > 0; rest >>= 1, square = product(square, square)) {
    if (rest & 1) result = product(result, square);
  }
  return exponent > 0 ? result : quotient(Complex(1, 0), result);
}

Complex polar_power(Complex base, Complex exponent) {
  const double size = std::hypot(base.real(), base.imag()), angle = std::atan2(base.imag(), base.real());
  double length = std::pow(size, exponent.real()), phase = angle * exponent.real();
  if (exponent.imag() != 0) {
    length /= std::exp(angle * exponent.imag());
    phase += exponent.imag() * std::log(size);
  }
  return {length * std::cos(phase), length * std::sin(phase)};
}

Result complex_power(Complex base, Complex exponent) {
  constexpr double kSmall = 100;
  const double e = exponent.real();
  std::optional<Complex> result;
  errno = 0;
  if (exponent.imag() == 0 && e == std::floor(e) && std::fabs(e) <= kSmall) {
    result = small_power(base, static_cast<int>(e));
  } else if (base == Complex(0, 0)) {
    if (exponent.imag() == 0 && !(e < 0)) result = Complex(0, 0);
  } else {
    result = polar_power(base, exponent);
  }
  const bool is_undefined = errno == EDOM;  // the sine of an infinite angle, for which CPython raises an error
  if (!result || is_undefined || std::isinf(result->real()) || std::isinf(result->imag())) return {};
  return Constant{*result};
}

Result complex_binary(Kind op, Complex a, Complex b) {
  switch (op) {
    case Kind::Add: return Constant{a + b};
    case Kind::Sub: return Constant{a - b};
    case Kind::Mult: return Constant{product(a, b)};
    case Kind::Div: {
      const auto result = quotient(a, b);
      return result ? Result(Constant{*result}) : std::nullopt;
    }
    case Kind::Pow: return complex_power(a, b);
    default: return {};
  }
}

// The items of a tuple, and of those in it.
size_t all_items(const Constant& c) {
  if (!c.is<Tuple>()) return 0;
  size_t count = c.as<Tuple>().items.size();
  for (const Constant& item : c.as<Tuple>().items) count += all_items(item);
  return count;
}

template <class Sequence>
Sequence repeated(const Sequence& sequence, size_t times) {
  Sequence result;
  result.reserve(sequence.size() * times);
  for (size_t i = 0; i < times; ++i) result.insert(result.end(), sequence.begin(), sequence.end());
  return result;
}

Result repeat(const Constant& sequence, const Integer& times) {
  const bool is_tuple = sequence.is<Tuple>();
  const size_t size = is_tuple                      ? sequence.as<Tuple>().items.size()
                      : sequence.is<Bytes>()          ? sequence.as<Bytes>().bytes.size()
                      : sequence.is<std::u32string>() ? sequence.as<std::u32string>().size()
                                                      : 0;
  if (!is_tuple && !sequence.is<Bytes>() && !sequence.is<std::u32string>()) return {};
  if (size == 0) {  // an error where it does not fit into 64 bits
    return bits_of(times) < 64 || times == -(Integer(1) << 63) ? Result(sequence) : Result();
  }
  if (times < 0 || times > (is_tuple ? kMaxFoldedItems : kMaxFoldedText) / size) return {};
  const auto n = static_cast<size_t>(times);
  if (is_tuple && n > 0 && all_items(sequence) > kMaxFoldedAllItems / n) return {};
  if (is_tuple) return Constant{Tuple{repeated(sequence.as<Tuple>().items, n)}};
  if (sequence.is<Bytes>()) return Constant{Bytes{repeated(sequence.as<Bytes>().bytes, n)}};
  return Constant{repeated(sequence.as<std::u32string>(), n)};
}

Result concatenate(const Constant& a, const Constant& b) {
  if (a.value.index() != b.value.index()) return {};
  if (a.is<std::u32string>()) return Constant{a.as<std::u32string>() + b.as<std::u32string>()};
  if (a.is<Bytes>()) return Constant{Bytes{a.as<Bytes>().bytes + b.as<Bytes>().bytes}};
  if (!a.is<Tuple>()) return {};
  Tuple joined = a.as<Tuple>();
  joined.items.insert(joined.items.end(), b.as<Tuple>().items.begin(), b.as<Tuple>().items.end());
  return Constant{std::move(joined)};
}

}  // namespace

Result unary(Kind op, const Constant& operand) {
  if (op == Kind::Not) return Constant{!truth(operand)};
  const auto type = numeric(operand);
  if (!type || (op == Kind::Invert && *type != Numeric::Integer)) return {};
  if (*type == Numeric::Integer) {
    const Integer i = integer_of(operand);
    return Constant{op == Kind::UAdd ? i : op == Kind::USub ? Integer(-i) : Integer(-i - 1)};
  }
  if (op == Kind::UAdd) return operand;
  return *type == Numeric::Float ? Constant{-operand.as<double>()} : Constant{-operand.as<Complex>()};
}

Result binary(Kind op, const Constant& left, const Constant& right) {
  const auto a = numeric(left), b = numeric(right);
  if (a && b) {
    switch (std::max(*a, *b)) {
      case Numeric::Integer: return integer_binary(op, left, right);
      case Numeric::Float: {
        const auto x = float_of(left), y = float_of(right);
        return x && y ? float_binary(op, *x, *y) : std::nullopt;
      }
      case Numeric::Complex: {
        const auto x = complex_of(left), y = complex_of(right);
        return x && y ? complex_binary(op, *x, *y) : std::nullopt;
      }
    }
  }
  if (op == Kind::Add) return concatenate(left, right);
  if (op != Kind::Mult) return {};
  if (b == Numeric::Integer) return repeat(left, integer_of(right));
  return a == Numeric::Integer ? repeat(right, integer_of(left)) : Result();
}

}  // namespace anfora::python
