// The right side of an equation: the nodes that it stands for under a match.
#pragma once

#include "rewrite/expression.h"
#include "rewrite/rule_set.h"

namespace anfora::rewrite {

// Makes the result's nodes; those that it names are bound in `match`, which is that of the scope. Null, with the reason in
// `refusal`: an attribute cannot be computed, an operator does not take the element type, or the operands do not fit together.
// What was made until then is left to Rewriter::discard_made.
ir::Node* make_result(const Term& result, const Scope& scope, Match& match, std::string& refusal);

}  // namespace anfora::rewrite
