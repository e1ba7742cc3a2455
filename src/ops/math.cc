#include "ops/elementary.h"
#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

void infer_neg(InferenceContext& ctx) {
  infer_same_type(ctx);
  auto elements = ctx.elements(0);
  if (!elements) return;
  for (Dim& x : *elements) x = ctx.dim(0) - x;
  ctx.set_elements(0, *elements);
}

void infer_abs(InferenceContext& ctx) {
  infer_same_type(ctx);
  auto elements = ctx.elements(0);
  if (!elements) return;
  for (Dim& x : *elements) {
    if (x.range().low < 0) x = x.range().high <= 0 ? ctx.dim(0) - x : ctx.unknown();
  }
  ctx.set_elements(0, *elements);
}

void infer_clip(InferenceContext& ctx) {
  infer_same_type(ctx);
  auto elements = ctx.elements(0);
  if (!elements) return;
  for (size_t bound : {1u, 2u}) {
    if (!ctx.has_input(bound)) continue;
    auto limit = ctx.elements(bound);
    if (!limit || limit->size() != 1) return;
    for (Dim& x : *elements) x = bound == 1 ? max(x, limit->front()) : min(x, limit->front());
  }
  ctx.set_elements(0, *elements);
}

void infer_predicate(InferenceContext& ctx) {
  auto dims = ctx.dims(0);
  if (!dims) return ctx.set_unranked(0, DType::Bool);
  ctx.set_tensor(0, DType::Bool, {dims->data(), dims->size()});
}

// A comparison for each bound.
double clip_flops(const InferenceContext& ctx) {
  return ((ctx.has_input(1) ? 1 : 0) + (ctx.has_input(2) ? 1 : 0)) * element_estimate(ctx.output(0));
}

}  // namespace

void declare_math(Declarations& declare) {
  unary(declare, "Abs", 13, "|x|.", kNumbers).infer(infer_abs);
  unary(declare, "Neg", 13, "−x.", kSignedNumbers).infer(infer_neg);
  unary(declare, "Sign", 13, "−1, 0 or 1; NaN for NaN.", kNumbers);
  unary(declare, "Ceil", 13, "The least integer not below x.");
  unary(declare, "Floor", 13, "The greatest integer not above x.");
  unary(declare, "Round", 22, "The nearest integer, halves to even.");
  unary(declare, "Sqrt", 13, "The square root; NaN below zero.");
  unary(declare, "Reciprocal", 13, "1 / x.");
  // The operations that one evaluation of a polynomial, with argument reduction, comes to.
  struct Function {
    const char *name, *doc;
    int since;
  };
  for (const Function& f : {Function{"Exp", "e to the power x.", 13},
                            {"Log", "The natural logarithm.", 13},
                            {"Erf", "The error function.", 13},
                            {"Tanh", "The hyperbolic tangent.", 13},
                            {"Sin", "The sine.", 22},
                            {"Cos", "The cosine.", 22},
                            {"Tan", "The tangent.", 22},
                            {"Asin", "The arc sine.", 22},
                            {"Acos", "The arc cosine.", 22},
                            {"Atan", "The arc tangent.", 22},
                            {"Sinh", "The hyperbolic sine.", 22},
                            {"Cosh", "The hyperbolic cosine.", 22},
                            {"Asinh", "The inverse hyperbolic sine.", 22},
                            {"Acosh", "The inverse hyperbolic cosine.", 22},
                            {"Atanh", "The inverse hyperbolic tangent.", 22}}) {
    unary(declare, f.name, f.since, f.doc).flops(flops_per_element<kTranscendental>);
  }
  declare.op("IsNaN", 20)
      .doc("Whether x is NaN.")
      .input("X", "T1")
      .output("Y", "T2")
      .type("T1", kFloats | kFloat8s)
      .type("T2", {DType::Bool})
      .infer(infer_predicate)
      .flops(flops_per_element<1>)
      .fusion(FusionKind::Elementwise);
  declare.op("IsInf", 20)
      .doc("Whether x is one of the infinities asked for.")
      .input("X", "T1")
      .output("Y", "T2")
      .type("T1", kFloats | kFloat8s)
      .type("T2", {DType::Bool})
      .attribute("detect_negative", 1)
      .attribute("detect_positive", 1)
      .infer(infer_predicate)
      .flops(flops_per_element<1>)
      .fusion(FusionKind::Elementwise);
  declare.op("Clip", 13)
      .doc("min(max(x, min), max), the bounds being scalars.")
      .input("input", "T")
      .optional_input("min", "T")
      .optional_input("max", "T")
      .output("output", "T")
      .type("T", kNumbers)
      .infer(infer_clip)
      .flops(clip_flops)
      .fusion(FusionKind::Elementwise)
      .in_place();
}

}  // namespace anfora::ops
