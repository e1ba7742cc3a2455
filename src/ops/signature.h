// The types of an operator's results from those of its operands, as its signature says (kernels/operator_signature.h). Inference unifies
// the operands' types with their terms, which gives each variable its value, and substitutes.
#pragma once

#include "ops/inference.h"

namespace anfora::ops {

// ir::Operator::infer of an operator that has a signature.
void infer_signature(InferenceContext& ctx);

}  // namespace anfora::ops
