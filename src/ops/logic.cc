#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

void infer_comparison(InferenceContext& ctx) { set_broadcast(ctx, DType::Bool, 0, 2); }

// Comparisons of shape arithmetic are tracked as 0 and 1, so that Where(Equal(shape, -1), …) is evaluated.
template <ElementFunction Function>
void infer_tracked_comparison(InferenceContext& ctx) {
  infer_comparison(ctx);
  combine_elements(ctx, Function);
}

Dim truth(const InferenceContext& ctx, bool yes, bool no) { return yes || no ? ctx.dim(yes) : ctx.unknown(); }
Dim equal(const InferenceContext& ctx, Dim a, Dim b) {
  return truth(ctx, provably_equal(a, b), provably_different(a, b));
}
Dim less(const InferenceContext& ctx, Dim a, Dim b) {
  const ir::Range gap = (b - a).range();
  return truth(ctx, gap.low > 0, gap.high <= 0);
}
Dim less_or_equal(const InferenceContext& ctx, Dim a, Dim b) {
  const ir::Range gap = (b - a).range();
  return truth(ctx, gap.low >= 0, gap.high < 0);
}
Dim greater(const InferenceContext& ctx, Dim a, Dim b) { return less(ctx, b, a); }
Dim both(const InferenceContext&, Dim a, Dim b) { return a * b; }
Dim either(const InferenceContext&, Dim a, Dim b) { return max(a, b); }
Dim greater_or_equal(const InferenceContext& ctx, Dim a, Dim b) { return less_or_equal(ctx, b, a); }

void infer_not(InferenceContext& ctx) {
  ctx.set_output(0, ctx.input(0));
  auto elements = ctx.elements(0);
  if (!elements) return;
  for (Dim& x : *elements) x = ctx.dim(1) - x;
  ctx.set_elements(0, *elements);
}

void infer_where(InferenceContext& ctx) {
  set_broadcast(ctx, ctx.dtype(1), 0, 3);
  auto condition = ctx.elements(0), x = ctx.elements(1), y = ctx.elements(2);
  if (!condition || !x || !y || condition->empty() || x->empty() || y->empty()) return;
  const size_t count = std::max({condition->size(), x->size(), y->size()});
  auto item = [&](const Dims& from, size_t i) { return from[from.size() == 1 ? 0 : i]; };
  for (const Dims* operand : {&*condition, &*x, &*y}) {
    if (operand->size() != 1 && operand->size() != count) return;
  }
  Dims chosen;
  for (size_t i = 0; i < count; ++i) {
    const Dim which = item(*condition, i), a = item(*x, i), b = item(*y, i);
    const bool decided = which.is_constant() || provably_equal(a, b);
    chosen.push_back(!decided ? ctx.unknown() : which.as_constant() == 0 ? b : a);
  }
  ctx.set_elements(0, std::move(chosen));
}

Declaration comparison(Declarations& declare, const char* name, int since, const char* doc, std::vector<DType> dtypes) {
  return declare.op(name, since)
      .doc(doc)
      .input("A", "T")
      .input("B", "T")
      .output("C", "T1")
      .type("T", std::move(dtypes))
      .type("T1", {DType::Bool})
      .infer(infer_comparison)
      .flops(flops_per_element<1>)
      .fusion(FusionKind::Broadcast);
}

}  // namespace

void declare_logic(Declarations& declare) {
  const std::vector<DType> boolean = {DType::Bool};
  comparison(declare, "And", 7, "A and B.", boolean).in_place({0, 1}).infer(infer_tracked_comparison<both>)
      .commutative().associative().range(range_of_and).piecewise(PiecewiseOp::And);
  comparison(declare, "Or", 7, "A or B.", boolean).in_place({0, 1}).infer(infer_tracked_comparison<either>)
      .commutative().associative().range(range_of_or).piecewise(PiecewiseOp::Or);
  comparison(declare, "Xor", 7, "Whether exactly one of A and B holds.", boolean).in_place({0, 1})
      .commutative().associative().piecewise(PiecewiseOp::Xor);
  declare.op("Not", 1)
      .doc("The negation of X.")
      .input("X", "T")
      .output("Y", "T")
      .type("T", boolean)
      .infer(infer_not)
      .flops(flops_per_element<1>)
      .fusion(FusionKind::Elementwise)
      .in_place()
      .range(range_of_not).piecewise(PiecewiseOp::Not);
  comparison(declare, "Equal", 19, "Whether A = B; NaN equals nothing.",
             kNumbers | boolean | std::vector{DType::String})
      .infer(infer_tracked_comparison<equal>)
      .commutative().range(range_of_equal).piecewise(PiecewiseOp::Equal);
  comparison(declare, "Less", 13, "Whether A < B.", kNumbers).infer(infer_tracked_comparison<less>)
      .range(range_of_less).piecewise(PiecewiseOp::Less);
  comparison(declare, "LessOrEqual", 16, "Whether A ≤ B.", kNumbers).infer(infer_tracked_comparison<less_or_equal>)
      .range(range_of_less_or_equal).piecewise(PiecewiseOp::LessOrEqual);
  comparison(declare, "Greater", 13, "Whether A > B.", kNumbers).infer(infer_tracked_comparison<greater>)
      .range(range_of_greater).piecewise(PiecewiseOp::Greater);
  comparison(declare, "GreaterOrEqual", 16, "Whether A ≥ B.", kNumbers)
      .infer(infer_tracked_comparison<greater_or_equal>)
      .range(range_of_greater_or_equal).piecewise(PiecewiseOp::GreaterOrEqual);
  declare.op("Where", 16)
      .doc("X where the condition holds, else Y; all three broadcast.")
      .input("condition", "B")
      .input("X", "T")
      .input("Y", "T")
      .output("output", "T")
      .type("B", boolean)
      .type("T", kNumbers | boolean | kComplexes | std::vector{DType::String})
      .infer(infer_where)
      .flops(flops_per_element<1>)
      .fusion(FusionKind::Broadcast)
      .in_place({1, 2})
      .widens(false).range(range_of_choice).whole(Whole::OfWhole).odd().scales().piecewise(PiecewiseOp::Where);
}

}  // namespace anfora::ops
