// The elementary functions are those of kernels/reference/vector_math.h, step by step, so that they are as exact: at most 2 units in
// the last place with FMA.
#include "codegen/epilogue.h"

#include <initializer_list>
#include <limits>

#include "anfora/error.h"

namespace anfora::codegen {
namespace {

using kernels::generated::Activation;
using kernels::generated::Epilogue;

// Elementwise expressions of tiles.
class Math {
 public:
  Math(Builder& builder, const IsaDescription& isa) : b_(builder), isa_(isa) {}

  Value activate(const Epilogue& epilogue, Value x) {
    const Value zero = b_.constant(0), one = b_.constant(1);
    auto alpha = [&] { return b_.constant(epilogue.alpha); };
    auto beta = [&] { return b_.constant(epilogue.beta); };
    auto clamp = [&](Value v) { return b_.minimum(one, b_.maximum(zero, v)); };
    switch (epilogue.activation) {
      case Activation::None: return x;
      case Activation::Relu: return b_.maximum(zero, x);
      case Activation::LeakyRelu: return b_.select(b_.less(x, zero), b_.multiply(alpha(), x), x);
      case Activation::Clip: return b_.minimum(beta(), b_.maximum(alpha(), x));
      case Activation::Abs: return magnitude(x);
      case Activation::HardSigmoid: return clamp(fma(alpha(), x, beta()));
      case Activation::HardSwish: return b_.multiply(x, clamp(fma(alpha(), x, beta())));
      case Activation::Elu: return b_.select(b_.less(x, zero), b_.multiply(alpha(), expm1(x)), x);
      case Activation::Sigmoid: return sigmoid(x);
      case Activation::Swish: return b_.multiply(x, sigmoid(b_.multiply(alpha(), x)));
      case Activation::Tanh: return tanh(x);
      case Activation::Gelu: {
        constexpr float kRootOfHalf = 0.70710678f;
        const Value half = b_.multiply(b_.constant(0.5f), x);
        return fma(half, erf(b_.multiply(x, b_.constant(kRootOfHalf))), half);
      }
      case Activation::GeluTanh: {
        constexpr float kRootOfTwoByPi = 0.79788456f, kCubic = 0.044715f;
        const Value inner = fma(b_.multiply(b_.constant(kCubic), b_.multiply(x, x)), x, x);
        const Value half = b_.multiply(b_.constant(0.5f), x);
        return fma(half, tanh(b_.multiply(b_.constant(kRootOfTwoByPi), inner)), half);
      }
    }
    throw Error(ErrorCode::Internal, "an activation without code");
  }

  Value fma(Value a, Value b, Value c) { return isa_.has_fma ? b_.fma(a, b, c) : b_.add(b_.multiply(a, b), c); }

 private:
  static constexpr int32_t kSign = INT32_MIN;

  Value fma(Value a, Value b, float c) { return fma(a, b, b_.constant(c)); }
  Value polynomial(std::initializer_list<float> coefficients, Value x) {
    Value p = kNone;
    for (float c : coefficients) p = p == kNone ? b_.constant(c) : fma(p, x, c);
    return p;
  }
  Value magnitude(Value x) { return b_.as_float(b_.binary(Op::And, b_.as_bits(x), b_.bits(~kSign))); }
  // A number that is not negative, with the sign of another.
  Value with_sign(Value x, Value of) {
    const Value sign = b_.binary(Op::And, b_.as_bits(of), b_.bits(kSign));
    return b_.as_float(b_.binary(Op::Or, b_.as_bits(x), sign));
  }

  struct Reduced {
    Value n;     // i32, the integer next to x / ln 2
    Value tail;  // exp(r) − 1 for the rest r = x − n ln 2
  };
  Reduced reduce_exponent(Value x) {
    const Value shift = b_.constant(0x1.8p23f);
    const Value shifted = fma(x, b_.constant(1.44269504e+0f), shift);
    const Value n = b_.subtract(shifted, shift);
    Value r = fma(n, b_.constant(-6.93145752e-1f), x);
    r = fma(n, b_.constant(-1.42860677e-6f), r);
    const Value p = polynomial({1.395060215e-3f, 8.368953131e-3f, 4.166620597e-2f, 1.666651815e-1f, 0.5f}, r);
    const Value low = b_.subtract(b_.as_bits(shifted), b_.as_bits(shift));
    return {low, fma(p, b_.multiply(r, r), r)};
  }
  Value power_of_two(Value n) {
    constexpr int32_t kBias = 127, kMantissa = 23;
    return b_.as_float(b_.binary(Op::ShiftLeft, b_.add(n, b_.bits(kBias)), b_.bits(kMantissa)));
  }

  // For |x| ≤ 87.
  Value exp_of_small(Value x) {
    const auto [n, tail] = reduce_exponent(x);
    const Value scale = power_of_two(n);
    return fma(scale, tail, scale);
  }
  // For x ≤ 89: 2^n in two factors, as the result may be subnormal.
  Value exp_below_overflow(Value x) {
    const auto [n, tail] = reduce_exponent(x);
    const Value half = b_.binary(Op::ShiftRight, n, b_.bits(1));
    const Value result =
        b_.multiply(b_.multiply(b_.add(b_.constant(1), tail), power_of_two(half)), power_of_two(b_.subtract(n, half)));
    return b_.select(b_.less(x, b_.constant(-104)), b_.constant(0), result);
  }
  // For x < 0; of others, something.
  Value expm1(Value x) {
    const auto [n, tail] = reduce_exponent(x);
    const Value scale = power_of_two(b_.subtract(n, b_.bits(1)));
    const Value halved = fma(scale, tail, b_.subtract(scale, b_.constant(0.5f)));
    const Value result = b_.multiply(b_.constant(2), halved);
    return b_.select(b_.less(x, b_.constant(-20)), b_.constant(-1), result);
  }
  Value sigmoid(Value x) {
    const Value e = exp_below_overflow(with_sign(magnitude(x), b_.constant(-1)));
    const Value one = b_.constant(1);
    return b_.divide(b_.select(b_.less(x, b_.constant(0)), e, one), b_.add(one, e));
  }
  Value tanh(Value x) {
    const Value t = magnitude(x), z = b_.multiply(x, x);
    const Value p = polynomial(
        {2.147539752e-3f, -8.182677440e-3f, 2.170296945e-2f, -5.394720286e-2f, 1.333321035e-1f, -3.333333135e-1f}, z);
    const Value small = fma(b_.multiply(p, z), x, x);
    const Value bounded = b_.minimum(b_.constant(10), t);  // keeps NaN
    const Value one = b_.constant(1), two = b_.constant(2);
    const Value large = b_.subtract(one, b_.divide(two, b_.add(exp_of_small(b_.multiply(two, bounded)), one)));
    return with_sign(magnitude(b_.select(b_.less(t, b_.constant(0.625f)), small, large)), x);
  }
  Value erf(Value x) {
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

  Builder& b_;
  const IsaDescription& isa_;
};

}  // namespace

Value multiply_add(Builder& builder, const IsaDescription& isa, Value a, Value b, Value c) {
  return Math(builder, isa).fma(a, b, c);
}

Value activate(Builder& builder, const IsaDescription& isa, const Epilogue& epilogue, Value x) {
  return Math(builder, isa).activate(epilogue, x);
}

}  // namespace anfora::codegen
