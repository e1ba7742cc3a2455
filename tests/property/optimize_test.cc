// Optimizing keeps what a module computes, and inference tells the truth about it.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "analysis/evaluate.h"
#include "analysis/infer.h"
#include "anfora/error.h"
#include "driver/compare.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "ops/registry.h"
#include "pipeline/pipeline.h"
#include "property/property.h"
#include "property/random_program.h"

namespace anfora::property {
namespace {

// The symbols of random programs and what they stand for.
std::optional<int64_t> size_of_symbol(std::string_view name) {
  if (name == "one") return 1;
  if (name == "N") return 2;
  if (name == "seq len") return 3;
  return std::nullopt;
}

// Whether the datum is one of the type's; a dimension that cannot be evaluated may be anything.
bool is_of_type(const Datum& datum, const ir::Type* type) {
  using ir::TypeKind;
  auto all_of_type = [](const Datum& whole, auto type_of) {
    for (size_t i = 0; i < whole.items().size(); ++i) {
      if (!is_of_type(whole.items()[i], type_of(i))) return false;
    }
    return true;
  };
  switch (type->kind()) {
    case TypeKind::Tuple:
      return datum.kind() == Datum::Kind::Tuple && datum.items().size() == type->elements().size() &&
             all_of_type(datum, [&](size_t i) { return type->element(i); });
    case TypeKind::Sequence:
      return datum.kind() == Datum::Kind::Sequence && all_of_type(datum, [&](size_t) { return type->element(); });
    case TypeKind::Tensor: {
      if (type->dtype() == DType::Undefined && !type->has_rank()) return true;
      if (!datum.is_tensor() || (type->dtype() != DType::Undefined && datum.tensor().dtype() != type->dtype()))
        return false;
      if (!type->has_rank()) return true;
      if (datum.tensor().rank() != type->rank()) return false;
      for (int axis = 0; axis < type->rank(); ++axis) {
        auto size = evaluate(type->dim(axis), size_of_symbol);
        if (size && *size != datum.tensor().dim(axis)) return false;
      }
      return true;
    }
    default: return false;
  }
}

Datum run(const RandomProgram& program) { return Datum::tuple(analysis::interpret(*program.module, program.inputs)); }

void expect_same_result(Arithmetic arithmetic, rewrite::Promise math) {
  Tape tape = *tapes();
  Choices choices(tape);
  auto context = ops::make_context();
  RandomProgram program = random_program(*context, choices, arithmetic);
  RC_LOG() << print(*program.module);
  Datum expected = run(program);
  try {
    ir::verify_or_throw(*program.module);
    analysis::infer_types(*program.module);
  } catch (const Error& error) {
    RC_FAIL(std::string(error.what()));
  }
  RC_LOG() << print(*program.module);
  const ir::Type* type = program.module->main()->return_node()->type();
  RC_ASSERT(is_of_type(expected.items().size() == 1 ? expected.items()[0] : expected, type));

  pipeline::OptimizeOptions options;
  options.passes.math = math;
  options.verify = true;
  try {
    pipeline::OptimizeReport report = pipeline::optimize(*program.module, options);
    RC_ASSERT(report.at_fixpoint);
    RC_LOG() << print(*program.module);
    ir::verify_or_throw(*program.module);
    driver::Comparison comparison = driver::compare(run(program), expected, driver::Tolerance{0, 0});
    if (!comparison.difference.empty()) RC_FAIL(comparison.difference);
  } catch (const Error& error) {
    RC_FAIL(std::string(error.what()));
  }
}

RC_GTEST_PROP(OptimizeProperty, ExactRulesKeepTheResultBitForBit, ()) {
  expect_same_result(Arithmetic::Rounding, rewrite::Promise::Exact);
}
RC_GTEST_PROP(OptimizeProperty, AllRulesKeepTheResultWhereNothingRounds, ()) {
  expect_same_result(Arithmetic::Exact, rewrite::Promise::Real);
}

}  // namespace
}  // namespace anfora::property
