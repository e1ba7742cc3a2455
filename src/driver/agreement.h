// Whether two models compute the same, judged by running both.
//
// An output is compared within the tolerance of its dtype. Where that is exceeded and the first model computes in half
// precision, a third run decides, the first model with that arithmetic in f32: every operator in f16 rounds to 11 bits, and
// two models that round at different places differ by the sum of both errors. The second model agrees when it is as near to
// the third run as the first one is, within a factor of two.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "driver/compare.h"
#include "ir/module.h"
#include "rewrite/rule.h"
#include "runtime/executable.h"

namespace anfora::driver {

struct AgreementOptions {
  int runs = 1;  // on random inputs; one on edge values (signed zeros, tiny and large numbers) follows
  uint64_t seed = 0;
  // What was promised of b: below Exact, elements that are NaN or infinite in either model on the edge values do not count.
  rewrite::Promise promise = rewrite::Promise::Exact;
};

// The worst relative differences of both models from the run in f32.
struct RoundingErrors {
  double first = 0, second = 0;
  std::string text() const;  // "as near as the first model: 2e-02 and 3e-02 from a run in f32"
};

struct Agreement {
  bool same = true;
  double worst = 0;                      // largest absolute difference over all outputs and runs
  double worst_relative = 0;             // largest one as a share of the output's largest element
  std::string output;                    // the output that the latter is on
  std::string message;                   // what differs; empty when same
  std::optional<RoundingErrors> errors;  // where the third run decided
};

// Runs `a`, which is `reference` compiled, and `b` on the same inputs and compares the outputs by position. The inputs are
// those of `reference`; b may have fewer, which are told by their names.
Agreement check_agreement(const ir::Module& reference, runtime::Executable& a, runtime::Executable& b,
                          const AgreementOptions& options = {});

}  // namespace anfora::driver
