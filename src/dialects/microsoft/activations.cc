// Activations; activations.ir says what the operators mean.
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
      .infer(infer_same_type);
  contrib(declare, "FastGelu", "Gelu of x + bias, by tanh.")
      .input("X", "T")
      .optional_input("bias", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .infer(infer_same_type);
  contrib(declare, "BiasGelu", "Gelu of A + B.")
      .input("A", "T")
      .input("B", "T")
      .output("C", "T")
      .type("T", kFloats)
      .infer(infer_same_type);
  contrib(declare, "QuickGelu", "x · Sigmoid(alpha · x).")
      .input("X", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .attribute("alpha", 1.702f)
      .infer(infer_same_type);
  contrib(declare, "BiasAdd", "X + bias + skip.")
      .input("X", "T")
      .input("bias", "T")
      .input("skip", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .infer(infer_same_type);
  contrib(declare, "GatedAdd", "X + Y · gate, the gate being one number for each row.")
      .input("X", "T")
      .input("Y", "T")
      .input("gate", "T")
      .output("output", "T")
      .type("T", kFloats)
      .infer(infer_same_type);
  contrib(declare, "ScaledSiLU", "z · Sigmoid(z) of z = scale · x; without a scale, alpha · x.")
      .input("X", "T")
      .optional_input("scale", "M")
      .output("Y", "T")
      .type("T", kFloats)
      .type("M", kFloats)
      .attribute("alpha", 1.0f)
      .infer(infer_same_type);
  contrib(declare, "GemmFastGelu", "FastGelu of X · W + bias.")
      .input("X", "T")
      .input("W", "T")
      .optional_input("bias", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .infer(infer_matmul_like);
}

}  // namespace anfora::ops
