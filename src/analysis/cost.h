// What executing an application is estimated to take, so that a rewrite can be asked to pay.
#pragma once

#include "analysis/infer.h"

namespace anfora::analysis {

// Microseconds on one core, within a small factor: a fixed part for each operator that is run, the time for its floating
// point operations, and the time for reading and writing memory, whichever is longer. Symbolic dimensions are taken for
// kAssumedDim. What works on constants only takes no time: it is folded. Views take none either.
double estimate_us(Inference& inference, const ir::Apply& node);

inline constexpr int64_t kAssumedDim = 32;

}  // namespace anfora::analysis
