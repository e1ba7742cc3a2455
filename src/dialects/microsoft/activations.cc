// Activations.
#include "dialects/microsoft/declare.h"

namespace anfora::ops {
namespace {

using enum DType;

void infer_matmul_like(InferenceContext& ctx) {
  auto a = ctx.dims(0), b = ctx.dims(1);
  if (!a || !b) return ctx.set_unranked(0, ctx.dtype(0));
  ctx.set_tensor(0, ctx.dtype(0), matmul_dims(ctx, *a, *b));
}

}  // namespace

void declare_microsoft_activations(Declarations& declare) {
  contrib(declare, "Gelu", "x · Φ(x), where Φ is the normal distribution.")
      .input("X", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .infer(infer_same_type)
      .means("graph @Gelu(%x) { return Gelu(%x) }");
  contrib(declare, "FastGelu", "Gelu of x + bias, by tanh.")
      .input("X", "T")
      .optional_input("bias", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .infer(infer_broadcast_to_first)
      .means(R"(graph @FastGelu(%x, %bias) { return Gelu(call @sum(%x, %bias)){approximate="tanh"} })");
  contrib(declare, "BiasGelu", "Gelu of A + B.")
      .input("A", "T")
      .input("B", "T")
      .output("C", "T")
      .type("T", kFloats)
      .infer(infer_broadcast_to_first)
      .means("graph @BiasGelu(%a, %b) { return Gelu(Add(%a, %b)) }");
  contrib(declare, "QuickGelu", "x · Sigmoid(alpha · x).")
      .input("X", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .attribute("alpha", 1.702f)
      .infer(infer_same_type)
      .means("graph @QuickGelu(%x) { return Swish(%x){alpha=$alpha} }");
  contrib(declare, "BiasAdd", "X + bias + skip.")
      .input("X", "T")
      .input("bias", "T")
      .input("skip", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .infer(infer_broadcast_to_first)
      .means("graph @BiasAdd(%x, %bias, %skip) { return Add(Add(%x, %bias), %skip) }");
  contrib(declare, "GatedAdd", "X + Y · gate, the gate being one number for each row.")
      .input("X", "T")
      .input("Y", "T")
      .input("gate", "T")
      .output("output", "T")
      .type("T", kFloats)
      .infer(infer_broadcast_to_first)
      .means("graph @GatedAdd(%x, %y, %gate) { return Add(%x, Mul(%y, %gate)) }");
  contrib(declare, "ScaledSiLU", "z · Sigmoid(z) of z = scale · x; without a scale, alpha · x.")
      .input("X", "T")
      .optional_input("scale", "M")
      .output("Y", "T")
      .type("T", kFloats)
      .type("M", kFloats)
      .attribute("alpha", 1.0f)
      .infer(infer_same_type)
      .means(R"(
graph @ScaledSiLU(%x, %scale) {
  %factor = if OptionalHasElement(%scale) { return %scale } else { return $alpha }
  %z = Mul(%x, CastLike(%factor, %x))
  return Mul(%z, Sigmoid(%z))
})");
  contrib(declare, "GemmFastGelu", "FastGelu of X · W + bias.")
      .input("X", "T")
      .input("W", "T")
      .optional_input("bias", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .infer(infer_matmul_like)
      .means(R"(graph @GemmFastGelu(%x, %w, %bias) { return Gelu(call @sum(MatMul(%x, %w), %bias)){approximate="tanh"} })");
}

}  // namespace anfora::ops
