// What the printer writes, the parser reads back, and it prints to the same bytes.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "analysis/infer.h"
#include "anfora/error.h"
#include "ir/isomorphic.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "ops/registry.h"
#include "property/property.h"
#include "property/random_program.h"
#include "property/random_text.h"

namespace anfora::property {
namespace {

// How often each invariant is broken. In how many places a cycle is noticed depends on where the walk enters it.
std::map<ir::Invariant, size_t> violations(const ir::Module& module) {
  std::map<ir::Invariant, size_t> counts;
  for (const ir::Violation& v : ir::verify(module)) ++counts[v.invariant];
  if (auto cycles = counts.find(ir::Invariant::Acyclic); cycles != counts.end()) cycles->second = 1;
  return counts;
}

void expect_round_trip(const ir::Module& module, ir::PrintOptions options = {}) {
  ir::Sidecar constants;
  options.sidecar = &constants;
  std::string text = print(module, options);
  RC_LOG() << text;
  auto context = ops::make_context();  // nothing is known from before
  try {
    auto copy = ir::parse(*context, text, {.sidecar = &constants});
    RC_ASSERT(print(*copy, options) == text);
    RC_ASSERT((violations(*copy) == violations(module)));  // even a broken module is broken in the same way
    if (ir::verify(module).empty()) RC_ASSERT(ir::difference(module, *copy, {.names = true}) == "");
  } catch (const Error& error) {
    RC_FAIL(std::string(error.what()));
  }
}

RC_GTEST_PROP(TextProperty, ProgramsRoundTrip, ()) {
  Tape tape = *tapes();
  Choices choices(tape);
  auto context = ops::make_context();
  auto program = random_program(*context, choices, Arithmetic::Rounding);
  expect_round_trip(*program.module);
  analysis::infer_types(*program.module);
  expect_round_trip(*program.module);
  expect_round_trip(*program.module, {.numbers = ir::PrintOptions::Numbers::Sequential});
}

RC_GTEST_PROP(TextProperty, AnythingRoundTrips, ()) {
  Tape program_tape = *tapes(), tape = *tapes();  // two, so that the program shrinks without changing what comes after
  Choices program_choices(program_tape), choices(tape);
  auto context = ops::make_context();
  auto program = random_program(*context, program_choices, Arithmetic::Rounding);
  add_oddities(*program.module, choices);
  expect_round_trip(*program.module);
  expect_round_trip(*program.module, {.numbers = ir::PrintOptions::Numbers::Sequential});
}

RC_GTEST_PROP(TextProperty, ADimensionReadsBackAsItself, ()) {
  Tape tape = *tapes();
  Choices choices(tape);
  ir::Context context, other;
  ir::Dim dim = random_dim(context, choices);
  std::string text = to_string(dim);
  RC_LOG() << text;
  RC_ASSERT(ir::parse_dim(context, text) == dim);
  RC_ASSERT(to_string(ir::parse_dim(other, text)) == text);
}

RC_GTEST_PROP(TextProperty, ATypeReadsBackAsItself, ()) {
  Tape tape = *tapes();
  Choices choices(tape);
  ir::Context context;
  const ir::Type* type = random_type(context, choices);
  std::string text = to_string(type);
  RC_LOG() << text;
  RC_ASSERT(ir::parse_type(context, text) == type);
}

}  // namespace
}  // namespace anfora::property
