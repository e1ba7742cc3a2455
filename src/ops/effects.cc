// Effects: what a run does besides computing its results. A token, of type `state`, orders them: each takes the token of the one before
// and gives its own, through calls, branches and loops like any value. So a pass may treat whatever has no token as pure, and an effect
// that no result depends on is dead: `Depend` ties a result to the effects before it.
//
//     %s0 = InitialState()
//     %s1 = Print(%s0, %x){message="x"}
//     %s2 = Assert(%s1, %ok){message="x is too large"}
//     return Depend(%y, %s2)
#include <fmt/format.h>

#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

void require_token(const InferenceContext& ctx, size_t i) {
  const Type* type = ctx.input(i);
  const bool is_unknown = type->is_tensor() && type->dtype() == DType::Undefined && !type->has_rank();
  if (type->kind() == ir::TypeKind::State || is_unknown) return;
  ctx.fail(fmt::format("input {} is to be a state token, it has type {}", i, to_string(type)));
}

void infer_initial_state(InferenceContext& ctx) { ctx.set_output(0, ctx.context().state_type()); }

void infer_effect(InferenceContext& ctx) {
  require_token(ctx, 0);
  ctx.set_output(0, ctx.context().state_type());
}

void infer_depend(InferenceContext& ctx) {
  require_token(ctx, 1);
  ctx.set_output(0, ctx.input(0));
  if (auto elements = ctx.elements(0)) ctx.set_elements(0, *elements);
}

void infer_never(InferenceContext& ctx) {
  require_token(ctx, 0);
  ctx.set_output(0, ctx.context().unreachable_type());
}

Declaration effect(Declarations& declare, const char* name, const char* doc) {
  return declare.op(name, 1, "anfora")
      .doc(doc)
      .input("token", "S")
      .output("next", "S")
      .type("S", kAnyType)
      .infer(infer_effect)
      .effect(Effect::State);
}

}  // namespace

void declare_effects(Declarations& declare) {
  declare.op("InitialState", 1, "anfora")
      .doc("The token before all effects of a run.")
      .output("token", "S")
      .type("S", kAnyType)
      .infer(infer_initial_state)
      .effect(Effect::State);
  effect(declare, "Print", "Writes the message and a value to standard error: one line, of a large tensor its type alone.")
      .input("value", "T")
      .type("T", kAnyType)
      .attribute("message", "");
  effect(declare, "Assert", "Ends the run by an error with the message, where an element of the condition is false.")
      .input("condition", "B")
      .type("B", {DType::Bool})
      .attribute("message", "an assertion does not hold");
  declare.op("Never", 1, "anfora")
      .doc("A value of any type, behind an effect that ends the run: what a path that raises an error returns.")
      .input("token", "S")
      .output("value", "T")
      .type("T", kAnyType)
      .type("S", kAnyType)
      .infer(infer_never);
  declare.op("Depend", 1, "anfora")
      .doc("The value, once the effects that the token stands for have happened.")
      .input("value", "T")
      .input("token", "S")
      .output("result", "T")
      .type("T", kAnyType)
      .type("S", kAnyType)
      .infer(infer_depend);
}

}  // namespace anfora::ops
