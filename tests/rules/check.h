// Checks an equation by its promise, on random instances and random values:
//
//     exact     the same bits, NaNs being equal to each other, whatever the inputs
//     finite    the same bits where inputs are finite and no infinity and no NaN comes up on the way
//     real      equal up to rounding on ordinary inputs, where the left side is a number
//
// Of both also where NaNs and infinities come up on the way, as the square root of a negative input does: where the left side is a
// number, the right side is that number, and what is a NaN becomes no number (a comparison would decide otherwise). The operands of
// the instance become quotients of inputs for that, of which no range is known.
//
// and that the rewritten module is well typed. An instance counts when the rule fired at its root and at least one element was
// compared.
#pragma once

#include <set>
#include <string>

#include "rewrite/rule_set.h"

namespace anfora::rules {

struct Effort {
  int instances = 100;  // that fire, per rule and alternative result
  int attempts = 4000;  // at making one of them
};

struct Finding {
  int fired = 0, symbolic = 0, attempts = 0;
  std::set<DType> dtypes;  // of the root
  std::string failure;     // empty: none; else the module, what became of it, and where they differ
};

Finding check_equation(const rewrite::Equation& equation, ir::Context& context, const Effort& effort);

}  // namespace anfora::rules
