// Unary mathematics: rounding, roots, exponentials, trigonometry, predicates, Clip.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/reference/elementwise.h"
#include "kernels/reference/families.h"
#include "kernels/reference/float_block.h"
#include "kernels/reference/vector_math.h"

namespace anfora::kernels {
namespace {

// In unsigned arithmetic, where the most negative integer wraps onto itself instead of being undefined.
template <class T>
T negated(T x) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(std::make_unsigned_t<T>{0} - static_cast<std::make_unsigned_t<T>>(x));
  } else {
    return -x;
  }
}

struct Abs {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::fabs(x);
    else if constexpr (std::is_unsigned_v<T>)
      return x;
    else
      return x < 0 ? negated(x) : x;
  }
};
struct Neg {
  template <class T>
  T operator()(T x) const {
    return negated(x);
  }
};
struct Sign {
  template <class T>
  T operator()(T x) const {
    T sign = static_cast<T>(static_cast<T>(x > T{0}) - static_cast<T>(x < T{0}));
    return x != x ? x : sign;  // NaN stays NaN
  }
};
struct Reciprocal {
  template <class T>
  T operator()(T x) const {
    return T{1} / x;
  }
};

// Functions of one float argument, from vector_math.h where they are there (they vectorize), else from libm.
#define ANFORA_FUNCTION(Name, call) \
  struct Name {                     \
    template <class T>              \
    T operator()(T x) const {       \
      return call(x);               \
    }                               \
  };
ANFORA_FUNCTION(Ceil, std::ceil)
ANFORA_FUNCTION(Floor, std::floor)
ANFORA_FUNCTION(Round, std::nearbyint)  // halves to even
ANFORA_FUNCTION(Sqrt, std::sqrt)
ANFORA_FUNCTION(Exp, kernels::exp)
ANFORA_FUNCTION(Log, kernels::log)
ANFORA_FUNCTION(Erf, kernels::erf)
ANFORA_FUNCTION(Tanh, kernels::tanh)
ANFORA_FUNCTION(Sin, std::sin)
ANFORA_FUNCTION(Cos, std::cos)
ANFORA_FUNCTION(Tan, std::tan)
ANFORA_FUNCTION(Asin, kernels::asin)
ANFORA_FUNCTION(Acos, kernels::acos)
ANFORA_FUNCTION(Atan, kernels::atan)
ANFORA_FUNCTION(Sinh, std::sinh)
ANFORA_FUNCTION(Cosh, std::cosh)
ANFORA_FUNCTION(Asinh, std::asinh)
ANFORA_FUNCTION(Acosh, std::acosh)
ANFORA_FUNCTION(Atanh, std::atanh)
#undef ANFORA_FUNCTION

struct IsNaN {
  template <class T>
  bool operator()(T x) const {
    return x != x;
  }
};
struct IsInf {
  bool positive, negative;
  template <class T>
  bool operator()(T x) const {
    const T infinity = std::numeric_limits<T>::infinity();
    return (positive & (x == infinity)) | (negative & (x == -infinity));
  }
};

template <class Op>
void test_elements(KernelContext& context, Op op) {
  const Tensor& in = context.input(0);
  UnaryRun run =
      dispatch<WideFloats>(compute_dtype(in.dtype()), [&]<class T>() -> UnaryRun { return unary_loop<T, bool, Op>; });
  run_unary(run, &op, in, context.allocate_output(0, DType::Bool, in.shape()), kElementwiseGrain);
}

void is_inf(KernelContext& context) {
  const AttributeSet& attributes = context.attributes();
  test_elements(context,
                IsInf{attributes.get_int("detect_positive", 1) != 0, attributes.get_int("detect_negative", 1) != 0});
}

// ---- sine and cosine ----

// Angles that are too large for vector_math.h, infinities and NaN among them, go to libm: each by itself, since a sine does not depend on
// what lies beside it.
template <bool Cosine>
void sine_loop(const void*, const void* in, void* out, int64_t n) {
  const float* x = static_cast<const float*>(in);
  float* y = static_cast<float*>(out);
  constexpr uint32_t kLargest = std::bit_cast<uint32_t>(kLargestAngle);
  for (int64_t begin = 0; begin < n; begin += kFloatBlock) {
    const int64_t end = std::min(n, begin + kFloatBlock);
    uint32_t largest = 0;
    for (int64_t i = begin; i < end; ++i) largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
    if (largest <= kLargest) {
      ANFORA_INDEPENDENT_ITERATIONS
      for (int64_t i = begin; i < end; ++i) y[i] = Cosine ? kernels::cos(x[i]) : kernels::sin(x[i]);
    } else {
      for (int64_t i = begin; i < end; ++i) {
        const bool is_small = (std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu) <= kLargest;
        y[i] = is_small ? (Cosine ? kernels::cos(x[i]) : kernels::sin(x[i])) : (Cosine ? std::cos(x[i]) : std::sin(x[i]));
      }
    }
  }
}

template <class Op, bool Cosine>
void sine_or_cosine(KernelContext& context) {
  const Tensor& in = context.input(0);
  if (in.dtype() == DType::F64) return map_elements<TypeList<double>>(context, Op{}, kCostlyGrain);
  if (compute_dtype(in.dtype()) != DType::F32) throw_unsupported_dtype(in.dtype());
  run_unary(sine_loop<Cosine>, nullptr, in, context.allocate_output(0, in.dtype(), in.shape()), kCostlyGrain);
}

// min(max(x, low), high), so that high wins when the bounds cross; a NaN element stays NaN.
template <class T>
struct Clip {
  T low, high;
  T operator()(T x) const {
    T raised = x < low ? low : x;
    return raised > high ? high : raised;
  }
};

template <class T>
T bound(const Tensor* tensor, T otherwise) {
  if (!tensor) return otherwise;
  if (tensor->size() != 1) throw Error(ErrorCode::TypeMismatch, "Clip: a bound must be a scalar");
  if (std::is_same_v<T, float> && is_narrow_float(tensor->dtype())) {
    float value;
    load_floats(tensor->dtype(), tensor->raw(), &value, 1);
    return static_cast<T>(value);
  }
  return tensor->data<T>()[0];
}

void clip(KernelContext& context) {
  const Tensor& in = context.input(0);
  const Tensor *low = context.optional_input(1), *high = context.optional_input(2);
  if (low) check_same_dtype(in, *low);
  if (high) check_same_dtype(in, *high);
  Tensor& out = context.allocate_output(0, in.dtype(), in.shape());
  dispatch<Join<WideFloats, Integers>>(compute_dtype(in.dtype()), [&]<class T>() {
    using Limits = std::numeric_limits<T>;
    constexpr bool real = std::is_floating_point_v<T>;
    Clip<T> op{bound<T>(low, real ? -Limits::infinity() : Limits::lowest()),
               bound<T>(high, real ? Limits::infinity() : Limits::max())};
    run_unary(unary_loop<T, T, Clip<T>>, &op, in, out, kElementwiseGrain);
  });
}

template <class Types, class Op, int64_t Grain = kElementwiseGrain>
void unary(KernelContext& context) {
  map_elements<Types>(context, Op{}, Grain);
}
template <class Op>
constexpr KernelFunction costly_unary = unary<WideFloats, Op, kCostlyGrain>;

}  // namespace

void register_math(KernelRegistry& registry) {
  registry.add("Abs", unary<Join<WideFloats, Integers>, Abs>);
  registry.add("Neg", unary<Join<WideFloats, SignedIntegers>, Neg>);
  registry.add("Sign", unary<Join<WideFloats, Integers>, Sign>);
  registry.add("Ceil", unary<WideFloats, Ceil>);
  registry.add("Floor", unary<WideFloats, Floor>);
  registry.add("Round", unary<WideFloats, Round>);
  registry.add("Sqrt", unary<WideFloats, Sqrt>);
  registry.add("Reciprocal", unary<WideFloats, Reciprocal>);
  registry.add("Exp", costly_unary<Exp>);
  registry.add("Log", costly_unary<Log>);
  registry.add("Erf", costly_unary<Erf>);
  registry.add("Tanh", costly_unary<Tanh>);
  registry.add("Sin", sine_or_cosine<Sin, false>);
  registry.add("Cos", sine_or_cosine<Cos, true>);
  registry.add("Tan", costly_unary<Tan>);
  registry.add("Asin", costly_unary<Asin>);
  registry.add("Acos", costly_unary<Acos>);
  registry.add("Atan", costly_unary<Atan>);
  registry.add("Sinh", costly_unary<Sinh>);
  registry.add("Cosh", costly_unary<Cosh>);
  registry.add("Asinh", costly_unary<Asinh>);
  registry.add("Acosh", costly_unary<Acosh>);
  registry.add("Atanh", costly_unary<Atanh>);
  registry.add("IsNaN", [](KernelContext& context) { test_elements(context, IsNaN{}); });
  registry.add("IsInf", is_inf);
  registry.add("Clip", clip);
}

}  // namespace anfora::kernels
