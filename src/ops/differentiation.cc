// What programs say of derivatives. Functions are operands here.
//
//     %s = StopGradient(%x)                                        x, which counts as a constant
//     %y = CustomGradient(@f, @f.gradient, %x, %w){count=1, by=[0]}   f(x, w), whose derivative by x is f.gradient
//     %d = Gradient(@f, %x, %w){count=1}                           (f(x, w), its derivative by x)
//
// Functions have no free variables: what they read from around them are arguments behind the `count` ones that may be differentiated by.
#include <algorithm>

#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

// The results of the function that operand 0 is.
std::vector<const Type*> results_of_function(InferenceContext& ctx) {
  if (!ctx.input(0)->is_func()) ctx.fail("the first operand is no function");
  const Type* result = ctx.input(0)->result();
  if (!result->is_tuple()) return {result};
  return {result->elements().begin(), result->elements().end()};
}

void infer_gradient(InferenceContext& ctx) {
  std::vector<const Type*> types = results_of_function(ctx);
  for (size_t i = 1; types.size() < ctx.num_outputs(); ++i) types.push_back(ctx.input(i));
  for (size_t i = 0; i < ctx.num_outputs(); ++i) ctx.set_output(i, types[i]);
}

void infer_custom_gradient(InferenceContext& ctx) {
  const std::vector<const Type*> types = results_of_function(ctx);
  if (types.size() < ctx.num_outputs()) ctx.fail("the function has fewer results");
  for (size_t i = 0; i < ctx.num_outputs(); ++i) ctx.set_output(i, types[i]);
}

}  // namespace

void declare_differentiation(Declarations& declare) {
  declare.op("StopGradient", 1, "anfora")
      .doc("Its input, by which nothing is differentiated: a constant to whatever reads it.")
      .input("X", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .infer(infer_same)
      .fusion(FusionKind::Elementwise)
      .in_place()
      .kernel("Identity");
  declare.op("CustomGradient", 1, "anfora")
      .doc(
          "The first results of `function` for the arguments; of their sensitivities and of the other results, the "
          "residuals, "
          "`gradient` makes the sensitivities of the arguments `by`. Others of the first `count` arguments have none, "
          "and by those behind "
          "them nothing can be differentiated. A call of the function where nothing is differentiated any more.")
      .input("function", "F")
      .input("gradient", "F")
      .variadic_input("arguments", "T", 0)
      .variadic_output("results", "T")
      .type("F", kAnyType)
      .type("T", kAnyType)
      .required_attribute("count", AttributeKind::Int)
      .required_attribute("by", AttributeKind::Ints)
      .infer(infer_custom_gradient)
      .calls()
      .no_kernel();
  declare.op("Gradient", 1, "anfora")
      .doc(
          "The results of `function` for the arguments, and behind them the derivatives of the first one, the sum of "
          "its elements, by the "
          "first `count` arguments. It is differentiated when a model is loaded, and then there is none left.")
      .input("function", "F")
      .variadic_input("arguments", "T", 0)
      .variadic_output("results", "T")
      .type("F", kAnyType)
      .type("T", kAnyType)
      .required_attribute("count", AttributeKind::Int)
      .attribute("checkpoints", 0)
      .infer(infer_gradient)
      .calls()
      .no_kernel();
}

}  // namespace anfora::ops
