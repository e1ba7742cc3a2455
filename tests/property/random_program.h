// Random modules that run: well-typed, with inputs that fit. They have constants, arithmetic with broadcasting, shape
// arithmetic, symbolic dimensions, tuples and sequences, and control flow of every kind: branches, closures, calls of
// shared functions, loops by tail calls, recursion, functions as arguments. (Not functions as results, which inference
// does not follow.)
#pragma once

#include <memory>
#include <vector>

#include "ir/module.h"
#include "property/choices.h"
#include "support/datum.h"

namespace anfora::property {

enum class Arithmetic {
  // All elements are integers small enough for their dtype to hold them and all intermediate results, in any order of
  // evaluation: whatever is equal over the reals is equal.
  Exact,
  Rounding,  // also operators whose results round, infinities and NaN
};

struct RandomProgram {
  std::unique_ptr<ir::Module> module;  // without types but those of main's parameters
  std::vector<Datum> inputs;           // of main
};

RandomProgram random_program(ir::Context& context, Choices& choices, Arithmetic arithmetic);

}  // namespace anfora::property
