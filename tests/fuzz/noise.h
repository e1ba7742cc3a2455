// Whether two models agree, where agreement within a fixed tolerance cannot be asked for.
//
// Over the reals a rewrite is exact; in floating point both sides are off by their own rounding, and a random model may blow
// that up without bound: x − y of two values that nearly cancel, divided by itself; Round, a comparison or ArgMax of what lies at a
// border. Then neither side is wrong. How far rounding alone moves a result is measured and not guessed, by Monte Carlo
// arithmetic (D. S. Parker, "Monte Carlo Arithmetic", 1997; the method of CADNA, too): the model is run again some times
// while every floating point value in it, and every input, is multiplied, element by element, with a random number as near to 1
// as a few rounding errors are:
//
//     %3 = Sub(%1, %2)         →       %3' = Sub(%1, %2);  %3 = Mul(%3', RandomUniformLike(%3'){low=1 − 4u, high=1 + 4u})
//
// What an element moves then is its noise. Elements of both models are equal when they differ by no more than the tolerance
// of their type plus a multiple of the noise of both. An integer, a bool, a string or a shape that moves at all is not decided by the
// model; of a string that is a numeral, what Cast makes of a float, the number may differ by as much as it moves. This comes in only where the plain comparison has found a difference, and each time that it does is counted.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"
#include "support/datum.h"

namespace anfora::fuzz {

struct Agreement {
  enum class Verdict : uint8_t { Same, WithinNoise, Different };
  Verdict verdict = Verdict::Same;
  std::string difference;  // in words; empty when the same
};

// The same bits, NaNs being equal to each other.
Agreement same_bits(const std::vector<Datum>& got, const std::vector<Datum>& want);

// The results of a module on inputs, and what rounding makes of them.
class Noise {
 public:
  Noise(const ir::Module& module, const std::vector<Datum>& inputs);
  // Empty where a run failed, as one with an index that has become another can.
  const std::vector<std::vector<Datum>>& runs() const { return runs_; }
  // Of each element of a result (a sequence: of one of its items), the largest minus the smallest value; empty: not comparable, since shapes differ or an element is
  // no number in some run.
  std::vector<double> spread(size_t result, size_t item, const Tensor& like) const;

 private:
  std::vector<std::vector<Datum>> runs_;
};

// By the tolerance of the element types, and where that does not do, within the noise of both. Elements that are no numbers
// in `want` are left out: that is what a promise over the reals says nothing about.
Agreement agree(const ir::Module& after, const std::vector<Datum>& got, const ir::Module& before,
                const std::vector<Datum>& want, const std::vector<Datum>& inputs);

}  // namespace anfora::fuzz
