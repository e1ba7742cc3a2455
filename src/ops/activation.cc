#include "ops/elementary.h"
#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

void infer_softmax(InferenceContext& ctx) {
  infer_same_type(ctx);
  if (auto rank = ctx.rank(0)) ctx.normalize_axis(ctx.attribute_int("axis"), *rank);
}

double gelu_flops(const InferenceContext& ctx) {
  return (ctx.attribute_string("approximate") == "tanh" ? kGeluByTanh : kGelu) * element_estimate(ctx.output(0));
}

// A factor of 1 takes nothing.
double elu_flops(const InferenceContext& ctx) {
  return (kElu + (ctx.attribute_float("alpha") == 1 ? 0 : 1)) * element_estimate(ctx.output(0));
}
double celu_flops(const InferenceContext& ctx) {
  return (kElu + (ctx.attribute_float("alpha") == 1 ? 0 : 2)) * element_estimate(ctx.output(0));
}

Declaration along_axis(Declarations& declare, const char* name, const char* doc) {
  return declare.op(name, 13)
      .doc(doc)
      .input("input", "T")
      .output("output", "T")
      .type("T", kFloats)
      .attribute("axis", -1)
      .infer(infer_softmax)
      .flops(flops_per_element<kSoftmax>)
      .in_place();
}

}  // namespace

void declare_activation(Declarations& declare) {
  unary(declare, "Relu", 14, "max(x, 0).", kSignedNumbers).flops(flops_per_element<1>)
      .range(range_of_relu).rising().at_least_operand().whole(Whole::OfWhole).scales().keeps_nan().piecewise(PiecewiseOp::Relu);
  unary(declare, "LeakyRelu", 16, "x where x ≥ 0, else alpha · x.")
      .attribute("alpha", 0.01f)
      .flops(flops_per_element<2>)
      .total().keeps_nan().piecewise(PiecewiseOp::LeakyRelu);
  declare.op("PRelu", 16)
      .doc("x where x ≥ 0, else slope · x; the slope broadcasts to X.")
      .input("X", "T")
      .input("slope", "T")
      .output("Y", "T")
      .type("T", kFloats | std::vector{DType::I32, DType::I64, DType::U32, DType::U64})
      .infer(infer_broadcast_to_first)
      .flops(flops_per_element<2>)
      .fusion(FusionKind::Broadcast)
      .broadcasts_to_first()
      .in_place()
      .total();
  unary(declare, "Elu", 22, "x where x ≥ 0, else alpha · (exp(x) − 1).").attribute("alpha", 1.0f).flops(elu_flops)
      .total();
  unary(declare, "Celu", 28, "max(0, x) + min(0, alpha · (exp(x / alpha) − 1)).")
      .attribute("alpha", 1.0f)
      .flops(celu_flops)
      .total();
  unary(declare, "Selu", 22, "gamma · x where x > 0, else gamma · alpha · (exp(x) − 1).")
      .attribute("alpha", 1.67326319217681884765625f)
      .attribute("gamma", 1.05070102214813232421875f)
      .flops(flops_per_element<kElu + 2>)
      .total();
  unary(declare, "Sigmoid", 13, "1 / (1 + exp(−x)).").flops(flops_per_element<kSigmoid>)
      .range(range_of_sigmoid).rising().keeps_nan();
  unary(declare, "HardSigmoid", 22, "alpha · x + beta, clipped to [0, 1].")
      .attribute("alpha", 0.2f)
      .attribute("beta", 0.5f)
      .flops(flops_per_element<kHardSigmoid>)
      .range(range_from_zero_to_one);
  unary(declare, "HardSwish", 22, "x · HardSigmoid(x) with alpha 1/6, beta 1/2.").flops(flops_per_element<kHardSwish>)
      .total();
  unary(declare, "Softplus", 22, "log(1 + exp(x)).").flops(flops_per_element<kSoftplus>)
      .range(range_of_softplus).rising().keeps_nan();
  unary(declare, "Softsign", 22, "x / (1 + |x|).").flops(flops_per_element<3>)
      .range(range_from_minus_one_to_one).total().rising().keeps_sign().odd().keeps_nan();
  unary(declare, "ThresholdedRelu", 22, "x where x > alpha, else 0.")
      .attribute("alpha", 1.0f)
      .flops(flops_per_element<2>);
  unary(declare, "Shrink", 9, "x + bias below −lambd, x − bias above lambd, else 0.",
        std::vector{DType::F16, DType::F32, DType::F64} | kIntegers)
      .attribute("bias", 0.0f)
      .attribute("lambd", 0.5f)
      .flops(flops_per_element<2>);
  unary(declare, "Mish", 22, "x · tanh(Softplus(x)).").flops(flops_per_element<kMish>)
      .total();
  unary(declare, "Gelu", 20, "x/2 · (1 + erf(x / √2)), or by the usual tanh formula.")
      .attribute("approximate", "none")
      .flops(gelu_flops)
      .total();
  unary(declare, "Swish", 24, "x · Sigmoid(alpha · x).").attribute("alpha", 1.0f).flops(flops_per_element<kSwish>).total();
  declare.op("SwiGLU", 28)
      .doc("Swish(A) · B, without broadcasting.")
      .input("A", "T")
      .input("B", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .attribute("alpha", 1.0f)
      .infer(infer_broadcast)
      .flops(flops_per_element<kSwiGlu>)
      .fusion(FusionKind::Elementwise)
      .in_place({0, 1});
  along_axis(declare, "Softmax", "exp(x) over its sum along the axis.")
      .axis().widens().fails(Fails::Never).range(range_of_softmax);
  along_axis(declare, "LogSoftmax", "The logarithm of Softmax, computed without overflow.").flops(log_softmax_flops)
      .axis().widens().total();
  along_axis(declare, "Hardmax", "1 at the first maximum along the axis, else 0.").flops(flops_per_element<1>)
      .axis();
}

}  // namespace anfora::ops
