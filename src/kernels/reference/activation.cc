// Activations, element by element. (Softmax and its relatives: softmax.cc.)
#include <fmt/format.h>

#include <cmath>
#include <string>

#include "kernels/reference/elementwise.h"
#include "kernels/reference/families.h"
#include "kernels/reference/softmax.h"
#include "kernels/reference/vector_math.h"

namespace anfora::kernels {
namespace {

struct Relu {
  template <class T>
  T operator()(T x) const {
    return x < T{0} ? T{0} : x;
  }  // keeps NaN
};
struct LeakyRelu {
  float alpha;
  template <class T>
  T operator()(T x) const {
    return x < 0 ? static_cast<T>(alpha) * x : x;
  }
};
struct PRelu {
  template <class T>
  T operator()(T x, T slope) const {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;  // wraps around
      return x < T{0} ? static_cast<T>(static_cast<U>(x) * static_cast<U>(slope)) : x;
    } else {
      return x < 0 ? slope * x : x;
    }
  }
};
struct Elu {
  float alpha;
  template <class T>
  T operator()(T x) const {
    return x < 0 ? static_cast<T>(alpha) * kernels::expm1(x) : x;
  }
};
struct Celu {
  float alpha;
  template <class T>
  T operator()(T x) const {
    const T scale = static_cast<T>(alpha);
    return x < 0 ? scale * kernels::expm1(x / scale) : x;
  }
};
struct Selu {
  float alpha, gamma;
  template <class T>
  T operator()(T x) const {
    const T below = static_cast<T>(gamma) * static_cast<T>(alpha) * kernels::expm1(x);
    return x < 0 ? below : static_cast<T>(gamma) * x;
  }
};
struct Sigmoid {
  template <class T>
  T operator()(T x) const {
    return kernels::sigmoid(x);
  }
};
// `x` brought into [0, 1].
template <class T>
T unit_clamp(T x) {
  const T raised = x < 0 ? T{0} : x;
  return raised > 1 ? T{1} : raised;
}
struct HardSigmoid {
  float alpha, beta;
  template <class T>
  T operator()(T x) const {
    return unit_clamp(static_cast<T>(alpha) * x + static_cast<T>(beta));
  }
};
struct HardSwish {
  template <class T>
  T operator()(T x) const {
    return x * unit_clamp(x * (T{1} / T{6}) + T{0.5});
  }
};
struct Softplus {
  template <class T>
  T operator()(T x) const {
    return kernels::softplus(x);
  }
};
struct Softsign {
  template <class T>
  T operator()(T x) const {
    return x / (T{1} + std::fabs(x));
  }
};
struct ThresholdedRelu {
  float alpha;
  template <class T>
  T operator()(T x) const {
    return x > static_cast<T>(alpha) ? x : T{0};
  }  // also for NaN
};
struct Shrink {
  float lambda, bias;
  template <class T>
  T operator()(T x) const {
    // Integers are compared and shifted as double, and truncated.
    using Real = std::conditional_t<std::is_floating_point_v<T>, T, double>;
    const Real value = static_cast<Real>(x), limit = static_cast<Real>(lambda), shift = static_cast<Real>(bias);
    const Real upper = value > limit ? value - shift : Real{0};  // also for NaN
    const Real result = value < -limit ? value + shift : upper;
    if constexpr (std::is_floating_point_v<T>)
      return result;
    else
      return static_cast<T>(static_cast<int64_t>(result));
  }
};

// tanh(log(1 + e)) = ((1 + e)^2 - 1) / ((1 + e)^2 + 1) for e = exp(x), which is 1 in float from x = 10 on.
struct Mish {
  template <class T>
  T operator()(T x) const {
    const T bound = std::is_same_v<T, float> ? T{20} : T{40};
    const T e = kernels::exp(x < bound ? x : bound);
    const T square = e * (e + T{2});
    return x * (square / (square + T{2}));
  }
};
struct Gelu {
  template <class T>
  T operator()(T x) const {
    constexpr T kInverseRootOf2 = static_cast<T>(0.70710678118654752440);
    return T{0.5} * x * (T{1} + kernels::erf(x * kInverseRootOf2));
  }
};
// (1 + tanh(u)) / 2 = sigmoid(2 u), without the cancellation for negative u.
struct GeluTanh {
  template <class T>
  T operator()(T x) const {
    constexpr T kTwiceRootOf2ByPi = static_cast<T>(1.5957691216057307118);
    return x * kernels::sigmoid(kTwiceRootOf2ByPi * (x + static_cast<T>(0.044715) * x * x * x));
  }
};
struct Swish {
  float alpha;
  template <class T>
  T operator()(T x) const {
    return x * kernels::sigmoid(static_cast<T>(alpha) * x);
  }
};
struct SwiGlu {
  float alpha;
  template <class T>
  T operator()(T gate, T value) const {
    return Swish{alpha}(gate)*value;
  }
};

// ONNX's defaults, from the paper.
constexpr float kSeluAlpha = 1.67326319217681884765625f, kSeluGamma = 1.05070102214813232421875f;

template <class Op, int64_t Grain = kElementwiseGrain>
void plain(KernelContext& context) {
  map_elements<WideFloats>(context, Op{}, Grain);
}
template <class Op>
constexpr KernelFunction costly = plain<Op, kCostlyGrain>;

void gelu(KernelContext& context) {
  const std::string_view approximation = context.attributes().string("approximate", "none");
  if (approximation == "none") return map_elements<WideFloats>(context, Gelu{}, kCostlyGrain);
  if (approximation == "tanh") return map_elements<WideFloats>(context, GeluTanh{}, kCostlyGrain);
  throw Error(ErrorCode::InvalidModel, fmt::format("Gelu: approximate must be none or tanh, not '{}'", approximation));
}

void prelu(KernelContext& context) {
  const Tensor &x = context.input(0), &slope = context.input(1);
  if (broadcast_shape(x.shape(), slope.shape()) != x.shape()) {
    throw Error(ErrorCode::TypeMismatch, "PRelu: the slope's shape " + to_string(slope.shape()) +
                                             " does not broadcast to the input's, " + to_string(x.shape()));
  }
  map_pairs<Join<WideFloats, TypeList<int32_t, int64_t, uint32_t, uint64_t>>>(context, PRelu{});
}

}  // namespace

void register_activation(KernelRegistry& registry) {
  registry.add("Relu", [](KernelContext& c) { map_elements<Join<WideFloats, SignedIntegers>>(c, Relu{}); });
  registry.add("LeakyRelu", [](KernelContext& c) {
    map_elements<WideFloats>(c, LeakyRelu{c.attributes().get_float("alpha", 0.01f)});
  });
  registry.add("PRelu", prelu);
  registry.add("Elu", [](KernelContext& c) {
    map_elements<WideFloats>(c, Elu{c.attributes().get_float("alpha", 1)}, kCostlyGrain);
  });
  registry.add("Celu", [](KernelContext& c) {
    map_elements<WideFloats>(c, Celu{c.attributes().get_float("alpha", 1)}, kCostlyGrain);
  });
  registry.add("Selu", [](KernelContext& c) {
    const AttributeSet& a = c.attributes();
    map_elements<WideFloats>(c, Selu{a.get_float("alpha", kSeluAlpha), a.get_float("gamma", kSeluGamma)}, kCostlyGrain);
  });
  registry.add("Sigmoid", costly<Sigmoid>);
  registry.add("HardSigmoid", [](KernelContext& c) {
    const AttributeSet& a = c.attributes();
    map_elements<WideFloats>(c, HardSigmoid{a.get_float("alpha", 0.2f), a.get_float("beta", 0.5f)});
  });
  registry.add("HardSwish", plain<HardSwish>);
  registry.add("Softplus", costly<Softplus>);
  registry.add("Softsign", plain<Softsign>);
  registry.add("ThresholdedRelu", [](KernelContext& c) {
    map_elements<WideFloats>(c, ThresholdedRelu{c.attributes().get_float("alpha", 1)});
  });
  registry.add("Shrink", [](KernelContext& c) {
    const AttributeSet& a = c.attributes();
    map_elements<Join<WideFloats, Integers>>(c, Shrink{a.get_float("lambd", 0.5f), a.get_float("bias", 0)});
  });
  registry.add("Mish", costly<Mish>);
  registry.add("Gelu", gelu);
  registry.add("Swish", [](KernelContext& c) {
    map_elements<WideFloats>(c, Swish{c.attributes().get_float("alpha", 1)}, kCostlyGrain);
  });
  registry.add("SwiGLU", [](KernelContext& c) {
    map_pairs<WideFloats>(c, SwiGlu{c.attributes().get_float("alpha", 1)}, kCostlyGrain);
  });
  registry.add("Softmax", softmax);
  registry.add("LogSoftmax", log_softmax);
  registry.add("Hardmax", hardmax);
}

}  // namespace anfora::kernels
