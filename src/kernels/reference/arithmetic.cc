// Binary and variadic arithmetic, with broadcasting: Add … Mod, Max, Min, Sum, Mean, Pow, the bitwise operations.
//
// Integers wrap around: sums and products are taken in unsigned arithmetic, which also lets signed and unsigned types
// share a loop. Dividing an integer by zero is an error, not a crash.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "kernels/reference/arguments.h"
#include "kernels/reference/cast.h"
#include "kernels/reference/elementwise.h"
#include "kernels/reference/families.h"

namespace anfora::kernels {
namespace {

// Two's complement makes addition, multiplication and the bitwise operations the same for both kinds of integers.
using Arithmetic = Join<WideFloats, UnsignedIntegers>;
using AllNumbers = Join<WideFloats, Integers>;

template <class Types, class Op>
void wrapping_pairs(KernelContext& context) {
  const Tensor &a = context.input(0), &b = context.input(1);
  check_same_dtype(a, b);
  BinaryRun run = dispatch<Types>(as_unsigned(compute_dtype(a.dtype())),
                                  []<class T>() -> BinaryRun { return binary_loop<T, T, Op>; });
  Op op;
  run_binary(run, &op, a, b, context.allocate_output(0, a.dtype(), broadcast_shape(a.shape(), b.shape())),
             kElementwiseGrain);
}

struct Plus {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a + b);
  }
};
struct Minus {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a - b);
  }
};
struct Times {
  template <class T>
  T operator()(T a, T b) const {
    // 16-bit operands would be promoted to int, whose overflow is undefined.
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(uint64_t{a} * uint64_t{b});
    else
      return a * b;
  }
};
struct BitAnd {
  template <class T>
  T operator()(T a, T b) const {
    return a & b;
  }
};
struct BitOr {
  template <class T>
  T operator()(T a, T b) const {
    return a | b;
  }
};
struct BitXor {
  template <class T>
  T operator()(T a, T b) const {
    return a ^ b;
  }
};
struct BitNot {
  template <class T>
  T operator()(T a) const {
    return static_cast<T>(~a);
  }
};

template <class T>
void check_divisor(T b) {
  if (b == 0) throw Error(ErrorCode::InvalidArgument, "integer division by zero");
}

// Truncates integers towards zero; the one quotient that does not fit, lowest / -1, wraps onto itself.
struct Divide {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return a / b;
    } else {
      check_divisor(b);
      if constexpr (std::is_signed_v<T>) {
        using U = std::make_unsigned_t<T>;
        if (b == -1) return static_cast<T>(U{0} - static_cast<U>(a));
      }
      return static_cast<T>(a / b);
    }
  }
};

// The remainder of the truncated quotient (C's), with the sign of the dividend.
struct TruncatedRemainder {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return std::fmod(a, b);
    } else {
      check_divisor(b);
      if constexpr (std::is_signed_v<T>) {
        if (b == -1) return 0;
      }
      return static_cast<T>(a % b);
    }
  }
};

// The remainder of the floored quotient (Python's), with the sign of the divisor.
struct FlooredRemainder {
  template <class T>
  T operator()(T a, T b) const {
    T rest = TruncatedRemainder{}(a, b);
    if constexpr (std::is_floating_point_v<T>) {
      if (rest == 0) return std::copysign(T{0}, b);
      return (rest < 0) != (b < 0) ? rest + b : rest;
    } else if constexpr (std::is_signed_v<T>) {
      return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
    } else {
      return rest;
    }
  }
};

void divide(KernelContext& context) { map_pairs<AllNumbers>(context, Divide{}); }

void mod(KernelContext& context) {
  if (context.attributes().get_int("fmod", 0) != 0) {
    map_pairs<AllNumbers>(context, TruncatedRemainder{}, kCostlyGrain);
  } else {
    map_pairs<AllNumbers>(context, FlooredRemainder{}, kCostlyGrain);
  }
}

// Shifts by the type's width or more, and by negative amounts, leave what sign extension alone gives.
struct ShiftLeft {
  template <class T>
  T operator()(T a, T amount) const {
    constexpr unsigned width = 8 * sizeof(T);
    return amount < width ? static_cast<T>(a << (amount & (width - 1))) : T{0};  // negative amounts look huge here
  }
};
struct ShiftRight {
  template <class T>
  T operator()(T a, T amount) const {
    constexpr T width = 8 * sizeof(T);
    const bool inside = amount >= 0 && amount < width;
    if constexpr (std::is_signed_v<T>) {
      return static_cast<T>(a >> (inside ? amount : width - 1));
    } else {
      return inside ? static_cast<T>(a >> amount) : T{0};
    }
  }
};

void bit_shift(KernelContext& context) {
  const std::string_view direction = context.attributes().string("direction", "");
  if (direction == "LEFT") return wrapping_pairs<UnsignedIntegers, ShiftLeft>(context);
  if (direction == "RIGHT") return map_pairs<Integers>(context, ShiftRight{});
  throw Error(ErrorCode::InvalidModel, fmt::format("BitShift: direction must be LEFT or RIGHT, not '{}'", direction));
}

void bitwise_not(KernelContext& context) {
  const Tensor& in = context.input(0);
  UnaryRun run = dispatch<UnsignedIntegers>(as_unsigned(in.dtype()),
                                            []<class T>() -> UnaryRun { return unary_loop<T, T, BitNot>; });
  BitNot op;
  run_unary(run, &op, in, context.allocate_output(0, in.dtype(), in.shape()), kElementwiseGrain);
}

template <class T, class Op>
T combine_bits(T a, T b, Op op) {
  if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == sizeof(uint32_t), uint32_t, uint64_t>;
    return std::bit_cast<T>(op(std::bit_cast<Bits>(a), std::bit_cast<Bits>(b)));
  } else {
    return a;
  }
}

// NaN if either is NaN, as in numpy; −0 is smaller than 0, so that the order of the operands does not matter.
// Equals that are no zeros have the same bits.
struct Larger {
  template <class T>
  T operator()(T a, T b) const {
    return ((a > b) | (a != a)) ? a : a == b ? combine_bits(a, b, std::bit_and()) : b;
  }
};
struct Smaller {
  template <class T>
  T operator()(T a, T b) const {
    return ((a < b) | (a != a)) ? a : a == b ? combine_bits(a, b, std::bit_or()) : b;
  }
};

// ---- variadic operations ----

Shape shape_of_all(const KernelContext& context) {
  Shape shape = context.input(0).shape();
  for (size_t i = 1; i < context.num_inputs(); ++i) {
    check_same_dtype(context.input(0), context.input(i));
    shape = broadcast_shape(shape, context.input(i).shape());
  }
  return shape;
}

// Whether writing the output early would destroy an input that is still to be read: the third or a later one.
bool overwrites_later_input(const KernelContext& context, const Tensor& out) {
  for (size_t i = 2; i < context.num_inputs(); ++i) {
    if (context.input(i).raw() == out.raw()) return true;
  }
  return false;
}

struct AddThenDivide {
  int64_t divisor;
  template <class T>
  T operator()(T a, T b) const {
    return (a + b) / static_cast<T>(divisor);
  }
};

// Folds the inputs from the left; `last` makes the final step. With more than two inputs the partial results of narrow
// floats stay in float, in a buffer of their own; so do those whose place is an input that is still to be read.
template <class Types, class Fold, class Last = Fold>
void fold_inputs(KernelContext& context, Fold fold = {}, Last last = {}) {
  const Tensor& first = context.input(0);
  const size_t count = context.num_inputs();
  const Shape shape = shape_of_all(context);
  const DType compute = compute_dtype(first.dtype());
  Tensor& out = context.allocate_output(0, first.dtype(), shape);
  if (count == 1) {
    if (out.raw() != first.raw()) std::memcpy(out.raw(), first.raw(), first.bytes());
    return;
  }
  auto run_of = [&]<class Op>(const Op&) {
    return dispatch<Types>(compute, []<class T>() -> BinaryRun { return binary_loop<T, T, Op>; });
  };
  const BinaryRun fold_run = run_of(fold), last_run = run_of(last);
  const bool buffered = count > 2 && (compute != first.dtype() || overwrites_later_input(context, out));
  Tensor partial = buffered ? Tensor::allocate(compute, shape) : out;
  const Tensor* left = &first;
  for (size_t i = 1; i + 1 < count; ++i) {
    run_binary(fold_run, &fold, *left, context.input(i), partial, kElementwiseGrain);
    left = &partial;
  }
  run_binary(last_run, &last, *left, context.input(count - 1), out, kElementwiseGrain);
}

void mean(KernelContext& context) {
  fold_inputs<WideFloats>(context, Plus{}, AddThenDivide{static_cast<int64_t>(context.num_inputs())});
}

// ---- Pow ----
//
// The exponent's type is independent of the base's, which is also the result's:
//   real ^ anything    in the base's compute type; in double where float cannot hold the exponent
//   integer ^ integer  by repeated squaring, wrapping around
//   integer ^ real     in double, truncated
//
// An element depends on its own base and exponent only, whatever others there are: a tensor full of threes is as good as one 3.

struct Square {
  template <class T>
  T operator()(T x) const {
    return x * x;
  }
};
struct Cube {
  template <class T>
  T operator()(T x) const {
    return x * x * x;
  }
};
struct SquareRoot {  // as pow has it: +0 for -0, infinity for -infinity
  template <class T>
  T operator()(T x) const {
    const T infinity = std::numeric_limits<T>::infinity();
    return x == -infinity ? infinity : std::sqrt(x) + T{0};
  }
};
struct Inverse {
  template <class T>
  T operator()(T x) const {
    return T{1} / x;
  }
};

// Calls f with the operation that an exponent of a float stands for, if it is one that models have as constants. Whether it
// is.
template <class F>
bool with_simple_power(double exponent, F&& f) {
  if (exponent == 2)
    f(Square{});
  else if (exponent == 3)
    f(Cube{});
  else if (exponent == 0.5)
    f(SquareRoot{});
  else if (exponent == -1)
    f(Inverse{});
  else
    return false;
  return true;
}

struct Power {
  template <class T>
  T operator()(T base, T exponent) const {
    if constexpr (std::is_floating_point_v<T>) {
      T result;
      if (with_simple_power(exponent, [&](auto op) { result = op(base); })) return result;
      return std::pow(base, exponent);
    } else {
      return integer_power(base, exponent);
    }
  }
  static int64_t integer_power(int64_t base, int64_t exponent) {
    if (exponent < 0) {  // 1 / base^-exponent, truncated
      if (base == 0) throw Error(ErrorCode::InvalidArgument, "zero to a negative power, in integers");
      if (base == 1) return 1;
      return base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
    }
    uint64_t result = 1;
    for (uint64_t square = static_cast<uint64_t>(base); exponent > 0; exponent >>= 1, square *= square) {
      if (exponent & 1) result *= square;
    }
    return static_cast<int64_t>(result);
  }
};
// A float base with an exponent that float may not hold.
struct PowerOfFloat {
  double operator()(double base, double exponent) const {
    const float narrow = static_cast<float>(exponent);
    if (static_cast<double>(narrow) != exponent) return std::pow(base, exponent);
    return static_cast<double>(Power{}(static_cast<float>(base), narrow));
  }
};

void pow(KernelContext& context) {
  const Tensor &base = context.input(0), &exponent = context.input(1);
  DType compute = compute_dtype(base.dtype());
  const bool is_of_float = compute == DType::F32;
  if (is_of_float || compute == DType::F64) {
    bool is_wide =
        exponent.dtype() == DType::F64 || (is_integer(exponent.dtype()) && element_bits(exponent.dtype()) > 16);
    if (exponent.size() == 1) {
      const double value = number(exponent);
      const bool keeps_shape = exponent.rank() <= base.rank();
      if (keeps_shape && with_simple_power(value, [&](auto op) { map_elements<WideFloats>(context, op); })) return;
      is_wide = static_cast<double>(static_cast<float>(value)) != value;
    }
    if (is_wide) compute = DType::F64;
  } else {
    compute = is_float(exponent.dtype()) ? DType::F64 : DType::I64;
  }
  Tensor& out = context.allocate_output(0, base.dtype(), broadcast_shape(base.shape(), exponent.shape()));
  const bool direct = compute_dtype(base.dtype()) == compute;
  Tensor result = direct ? out : context.temporary(compute, out.shape());
  BinaryRun run = dispatch<TypeList<float, double, int64_t>>(
      compute, []<class T>() -> BinaryRun { return binary_loop<T, T, Power>; });
  if (is_of_float && compute == DType::F64) run = binary_loop<double, double, PowerOfFloat>;
  const Power op;  // without a state, as PowerOfFloat
  run_binary(run, &op, direct ? base : cast_tensor(context, base, compute), cast_tensor(context, exponent, compute), result,
             kCostlyGrain);
  if (!direct) cast_into(result, out);
}

}  // namespace

void register_arithmetic(KernelRegistry& registry) {
  registry.add("Add", wrapping_pairs<Arithmetic, Plus>);
  registry.add("Sub", wrapping_pairs<Arithmetic, Minus>);
  registry.add("Mul", wrapping_pairs<Arithmetic, Times>);
  registry.add("Div", divide);
  registry.add("Mod", mod);
  registry.add("Max", [](KernelContext& context) { fold_inputs<AllNumbers, Larger>(context); });
  registry.add("Min", [](KernelContext& context) { fold_inputs<AllNumbers, Smaller>(context); });
  registry.add("Sum", [](KernelContext& context) { fold_inputs<WideFloats, Plus>(context); });
  registry.add("Mean", mean);
  registry.add("Pow", pow);
  registry.add("BitShift", bit_shift);
  registry.add("BitwiseAnd", wrapping_pairs<UnsignedIntegers, BitAnd>);
  registry.add("BitwiseOr", wrapping_pairs<UnsignedIntegers, BitOr>);
  registry.add("BitwiseXor", wrapping_pairs<UnsignedIntegers, BitXor>);
  registry.add("BitwiseNot", bitwise_not);
}

}  // namespace anfora::kernels
