#include "codegen/epilogue.h"

#include "anfora/error.h"
#include "codegen/vector_math.h"

namespace anfora::codegen {

using kernels::generated::Activation;
using kernels::generated::Epilogue;

Value multiply_add(Builder& builder, const IsaDescription& isa, Value a, Value b, Value c) {
  return VectorMath(builder, isa).fma(a, b, c);
}

Value activate(Builder& builder, const IsaDescription& isa, const Epilogue& epilogue, Value x) {
  VectorMath math(builder, isa);
  const Value zero = builder.constant(0), one = builder.constant(1);
  auto alpha = [&] { return builder.constant(epilogue.alpha); };
  auto beta = [&] { return builder.constant(epilogue.beta); };
  auto clamp = [&](Value v) { return builder.minimum(one, builder.maximum(zero, v)); };
  switch (epilogue.activation) {
    case Activation::None: return x;
    case Activation::Relu: return builder.maximum(zero, x);
    case Activation::LeakyRelu: return builder.select(builder.less(x, zero), builder.multiply(alpha(), x), x);
    case Activation::Clip: return builder.minimum(beta(), builder.maximum(alpha(), x));
    case Activation::Abs: return math.magnitude(x);
    case Activation::HardSigmoid: return clamp(math.fma(alpha(), x, beta()));
    case Activation::HardSwish: return builder.multiply(x, clamp(math.fma(alpha(), x, beta())));
    case Activation::Elu: return builder.select(builder.less(x, zero), builder.multiply(alpha(), math.expm1(x)), x);
    case Activation::Sigmoid: return math.sigmoid(x);
    case Activation::Swish: return builder.multiply(x, math.sigmoid(builder.multiply(alpha(), x)));
    case Activation::Tanh: return math.tanh(x);
    case Activation::Gelu: return math.gelu(x);
    case Activation::GeluTanh: return math.gelu_tanh(x);
  }
  throw Error(ErrorCode::Internal, "an activation without code");
}

}  // namespace anfora::codegen
