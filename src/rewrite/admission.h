// What a rewrite may make. Rules and passes alike ask here before an application of theirs stays: the declaration of its
// operator must take the operands (there is no Concat of fp8, and no MatMul of 2×3 by 2×3), and the operator set that is
// to be written must have it.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "analysis/infer.h"
#include "ir/module.h"

namespace anfora::rewrite {

// Whether an operator set has an application as it is; null: it has all.
using HasOperator = std::function<bool(const ir::Apply&)>;

// Whether what runs the result computes an application accurately, relative to its value however small that is; null: it does.
using IsAccurate = std::function<bool(const ir::Apply&)>;

// Each says why not; empty: it may.
std::string why_not_taken(const ir::Operator& op, size_t input, DType dtype);  // a tensor as an operand
std::string why_not_typed(analysis::Inference& inference, ir::Apply& made);    // types it on the way
std::string why_not_written(const HasOperator& has, std::span<ir::Apply* const> made);
std::string why_not_accurate(const IsAccurate& is_accurate, std::span<ir::Apply* const> made);

}  // namespace anfora::rewrite
