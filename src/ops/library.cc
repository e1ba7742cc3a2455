// What functions of a library are written with (ir/library.h). None has a kernel: they are gone where one is inserted.
#include "ir/library.h"

#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

void infer_anything(InferenceContext& ctx) {
  for (size_t i = 0; i < ctx.num_outputs(); ++i) ctx.set_unranked(i, DType::Undefined);
}

void infer_truth(InferenceContext& ctx) { ctx.set_tensor(0, DType::Bool, {}); }

void infer_unreachable(InferenceContext& ctx) { ctx.fail(ctx.attribute_string("reason")); }

Declaration of_library(Declarations& declare, std::string_view name, const char* doc) {
  return declare.op(std::string(name), 1, "anfora").doc(doc).no_kernel();
}

}  // namespace

void declare_library(Declarations& declare) {
  of_library(declare, ir::kAttributeOf,
             "In a function that an operator means: the value of that operator's attribute, or none. In text `$name`.")
      .output("value", "V")
      .type("V", kAnyType)
      .required_attribute("name", AttributeKind::String)
      .infer(infer_anything);
  of_library(declare, ir::kWithAttributes,
             "An operator whose attributes of these names are the last operands. In text `Transpose(%x){perm=%perm}`.")
      .variadic_input("inputs", "V")
      .variadic_output("outputs", "W")
      .type("V", kAnyType)
      .type("W", kAnyType)
      .required_attribute("operator", AttributeKind::String)
      .required_attribute("names", AttributeKind::Strings)
      .infer(infer_anything);
  of_library(declare, ir::kIsKnown, "Whether the elements are known where the function is inserted.")
      .input("X", "V")
      .output("Y", "bool")
      .type("V", kAnyType)
      .infer(infer_truth);
  of_library(declare, ir::kHolds,
             "Whether a function of the rule language (docs/rule-language.md) holds of the operands where the function is inserted.")
      .variadic_input("inputs", "V")
      .output("Y", "bool")
      .type("V", kAnyType)
      .required_attribute("fact", AttributeKind::String)
      .infer(infer_truth);
  of_library(declare, ir::kAtRun, "A condition of a choice that is left to the run.")
      .input("X", "bool")
      .output("Y", "bool")
      .infer(infer_truth);
  of_library(declare, ir::kSumOf, "In a gradient: the sum of two sensitivities, item by item of sequences.")
      .input("A", "V")
      .input("B", "V")
      .output("C", "V")
      .type("V", kAnyType)
      .infer(infer_anything);
  of_library(declare, ir::kZerosOf, "In a gradient: the sensitivity that a value has where nothing depends on it.")
      .input("X", "V")
      .output("Y", "V")
      .type("V", kAnyType)
      .infer(infer_anything);
  of_library(declare, ir::kUnreachable, "What no run computes, for this reason. In text `unreachable \"reason\"`.")
      .output("value", "V")
      .type("V", kAnyType)
      .required_attribute("reason", AttributeKind::String)
      .infer(infer_unreachable);
}

}  // namespace anfora::ops
