// Proofs by Z3: of equations all of whose operators work element by element, on numbers, bits and truth values. Integers are
// bit vectors, which wrap around as ours do; floats are real numbers, so that what is proved of them is what [real] promises.
// What the guard says of values (positive(x), value(c) == 2) is assumed, shapes do not matter here.
#pragma once

#include <string>

#include "rewrite/rule_set.h"

namespace anfora::rules {

struct Proof {
  enum class Verdict : uint8_t {
    NotTried,  // it has operators that are not element by element, or that the solver has no notion of
    Proved,
    Refuted,
    Undecided,  // out of time, or the guard says more than was assumed
  };
  Verdict verdict = Verdict::NotTried;
  std::string domains;         // where it is proved: "i8 u8 i32 u32 reals"
  std::string counterexample;  // of a refuted one
};

Proof prove(const rewrite::Equation& equation);

}  // namespace anfora::rules
