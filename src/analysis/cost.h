// What executing an application is estimated to take, so that a rewrite can be asked to pay.
#pragma once

#include "analysis/infer.h"

namespace anfora::analysis {

// Microseconds on one core, within a small factor: a fixed part for each operator that is run, the time for its floating
// point operations, and the time for reading and writing memory, whichever is longer. Symbolic dimensions are taken for
// kAssumedDim. What works on constants only takes no time: it is folded. Views take none either.
double estimate_us(Inference& inference, const ir::Apply& node);
// The same of what is executed, even if it works on constants only.
double run_us(Inference& inference, const ir::Apply& node);
// The same of an operator that reads and writes so many bytes, and computes nothing.
double estimate_us(double bytes);

// What the floating point operations of an application take alone.
double compute_us(Inference& inference, const ir::Apply& node);

// Floating point operations of an application; symbolic dimensions as above.
double estimate_flops(Inference& inference, const ir::Apply& node);

// Bytes of a value of that type, also of a tuple; symbolic dimensions as above. What has no known rank counts nothing.
double bytes_of(const ir::Type* type);

// Bytes of memory that the results of an application take; nothing where they lie in a file.
double memory_of(const ir::Apply& node);

// Whether it is better to keep `bytes` of memory than to compute the application once more: so it is for all but what makes
// a large result of nearly nothing (Expand, ConstantOfShape, a Cast of bools), which costs hardly more time than to
// write it.
bool is_worth_keeping(Inference& inference, const ir::Apply& node, double bytes);

inline constexpr int64_t kAssumedDim = 32;

}  // namespace anfora::analysis
