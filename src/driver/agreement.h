// Whether two models compute the same, judged by running both.
//
// An output is compared within the tolerance of its dtype. Where that is exceeded, a third run may decide, the first model with
// its arithmetic in a wider type: of f16 and bf16 in f32, since every operator rounds to 11 bits or fewer, and two models that
// round at different places differ by the sum of both errors; and of f32 in f64 where rounding was not promised, for a softmax
// of large scores or a difference of near numbers has as many wrong digits. The second model agrees when it is as near to
// the third run as the first one is, within a factor of two, unless that is farther than noise explains.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "driver/compare.h"
#include "driver/inputs.h"
#include "ir/module.h"
#include "rewrite/rule.h"
#include "runtime/executable.h"

namespace anfora::driver {

struct AgreementOptions {
  int runs = 1;  // on random inputs; one on edge values (signed zeros, tiny and large numbers) follows
  uint64_t seed = 0;
  SizeByName dims = {};  // of symbolic dimensions, see RandomInputs
  // What was promised of b: below Exact, elements that are NaN or infinite in either model on the edge values do not count; by
  // Real, a run in f64 may decide.
  rewrite::Promise promise = rewrite::Promise::Exact;
};

// The worst relative differences of both models from the run in a wider type.
struct RoundingErrors {
  double first = 0, second = 0;
  DType in = DType::F32;
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
