// The right side of an equation: the nodes that it stands for under a match.
#pragma once

#include "rewrite/expression.h"
#include "rewrite/rule_set.h"

namespace anfora::rewrite {

// Makes the result's nodes. Null, with the reason in `refusal`: an attribute cannot be computed, an operator does not take the
// element type, or the operands do not fit together. What was made until then is left to Rewriter::discard_made.
ir::Node* make_result(const Term& result, const Scope& scope, std::string& refusal);

}  // namespace anfora::rewrite
