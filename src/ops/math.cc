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
  for (size_t bound : {1u, 2u}) require_scalar(ctx, bound);
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
  unary(declare, "Abs", 13, "|x|.", kNumbers).infer(infer_abs)
      .range(range_of_magnitude).total().at_least_operand().whole(Whole::OfWhole).keeps_nan().piecewise(PiecewiseOp::Abs);
  unary(declare, "Neg", 13, "−x.", kSignedNumbers).infer(infer_neg)
      .range(range_of_negation).total().whole(Whole::OfWhole).keeps_nan().piecewise(PiecewiseOp::Neg);
  unary(declare, "Sign", 13, "−1, 0 or 1; NaN for NaN.", kNumbers)
      .range(range_of_sign).rising().keeps_sign().whole(Whole::Always).odd().keeps_nan().piecewise(PiecewiseOp::Sign);
  unary(declare, "Ceil", 13, "The least integer not below x.")
      .range(range_of_ceiling).rising().at_least_operand().whole(Whole::Always).mirror("Floor").keeps_nan();
  unary(declare, "Floor", 13, "The greatest integer not above x.")
      .range(range_of_floor).rising().at_most_operand().whole(Whole::Always).mirror("Ceil").keeps_nan();
  unary(declare, "Round", 22, "The nearest integer, halves to even.")
      .range(range_of_rounding).rising().whole(Whole::Always).odd().keeps_nan();
  unary(declare, "Sqrt", 13, "The square root; NaN below zero.")
      .range(range_of_square_root).rising().keeps_nan();
  unary(declare, "Reciprocal", 13, "1 / x.")
      .range(range_of_reciprocal).keeps_nan();
  // The operations that one evaluation of a polynomial, with argument reduction, comes to.
  auto transcendental = [&](const char* name, int since, const char* doc) {
    return unary(declare, name, since, doc).flops(flops_per_element<kTranscendental>).keeps_nan();
  };
  transcendental("Exp", 13, "e to the power x.").range(range_of_exponential).rising().at_least_operand();
  transcendental("Log", 13, "The natural logarithm.").range(range_of_logarithm).rising();
  transcendental("Erf", 13, "The error function.").range(range_from_minus_one_to_one).rising().keeps_sign().odd();
  transcendental("Tanh", 13, "The hyperbolic tangent.").range(range_of_tanh).rising().keeps_sign().odd();
  transcendental("Sin", 22, "The sine.").range(range_of_wave).odd();
  transcendental("Cos", 22, "The cosine.").range(range_of_wave);
  transcendental("Tan", 22, "The tangent.").odd();
  transcendental("Asin", 22, "The arc sine.").odd();
  transcendental("Acos", 22, "The arc cosine.");
  transcendental("Atan", 22, "The arc tangent.").rising().keeps_sign().odd();
  transcendental("Sinh", 22, "The hyperbolic sine.").rising().keeps_sign().odd();
  transcendental("Cosh", 22, "The hyperbolic cosine.");
  transcendental("Asinh", 22, "The inverse hyperbolic sine.").odd();
  transcendental("Acosh", 22, "The inverse hyperbolic cosine.");
  transcendental("Atanh", 22, "The inverse hyperbolic tangent.").odd();
  declare.op("IsNaN", 20)
      .doc("Whether x is NaN.")
      .input("X", "T1")
      .output("Y", "T2")
      .type("T1", kFloats | kFloat8s)
      .type("T2", {DType::Bool})
      .infer(infer_predicate)
      .flops(flops_per_element<1>)
      .fusion(FusionKind::Elementwise)
      .range(range_of_is_nan);
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
      .fusion(FusionKind::Elementwise)
      .range(range_of_is_infinite);
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
      .in_place()
      .range(range_of_clip).whole(Whole::OfWhole).piecewise(PiecewiseOp::Clip);
}

}  // namespace anfora::ops
