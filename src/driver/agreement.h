// Whether two models compute the same, judged by running both.
//
// An output is compared within the tolerance of its dtype, by what was promised: below Exact, where the first model gives a
// NaN or an infinity, anything may stand; its numbers must stay numbers. Where the tolerance is exceeded and rounding was not
// promised, it is measured how much rounding alone moves the first model's output, and nothing is guessed:
//
//     1. inputs moved by one unit in the last place. What moves as far by that is not told apart by the inputs' own precision.
//     2. the first model in a wider type: of f16 and bf16 in f32, since every operator rounds to 11 bits or fewer; of f32 in
//        f64, for a softmax of large scores or a difference of near numbers has as many wrong digits. The second model agrees
//        when it is as near to that run as the first one is, within a factor of two: rounding errors are random.
//     3. where both runs say that the first model's output is noise, the two models are compared in the wider type, in which it
//        is none. On edge values, and where it is noise even there, that output says nothing of that run.
//
// Numbers without a fraction (classes, positions, quantized values) jump where rounding decides; of those it is counted how many
// do. An output that no run tells anything of makes the answer "not compared", which is neither yes nor no.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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
  // What was promised of b.
  rewrite::Promise promise = rewrite::Promise::Exact;
  // Compared on these instead of made-up ones, in the order of the reference's inputs. What the models say of them is thrown.
  std::vector<Datum> given = {};
  // Compared with this tolerance instead of that of the dtypes, and without any measuring.
  std::optional<Tolerance> tolerance = std::nullopt;
  // Made up like this, and not searched (fit.h).
  std::optional<RandomInputs> made_up = std::nullopt;
};

// The worst relative differences of both models from the run in a wider type.
struct RoundingErrors {
  double first = 0, second = 0;
  DType in = DType::F32;
  std::string text() const;  // "as near as the first model: 2e-02 and 3e-02 from a run in f32"
};

struct Agreement {
  bool same = true;                      // no difference was found
  double worst = 0;                      // largest absolute difference over all outputs and runs
  double worst_relative = 0;             // largest one as a share of the output's largest element
  std::string output;                    // the output that the latter is on
  std::string message;                   // what differs; empty when same
  std::optional<RoundingErrors> errors;  // where the third run decided
  std::string found;                     // sizes and numbers that made-up inputs had to have: "height=320"
  // Why nothing, or some output, could be compared, and what to try; empty: all were.
  std::string not_compared, suggestion;
  bool is_compared() const { return not_compared.empty(); }
};

// Runs `a`, which is `first` compiled, and `b`, which is `second`, on the same inputs and compares the outputs by position. The
// inputs are those of `first`; `second` may have fewer, which are told by their names. Both modules are typed.
Agreement check_agreement(const ir::Module& first, runtime::Executable& a, const ir::Module& second,
                          runtime::Executable& b, const AgreementOptions& options = {});

}  // namespace anfora::driver
