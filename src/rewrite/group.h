// Rules of groups: `all TERM of x` matches every application of one form that has the operand x, and they become one application together.
#pragma once

#include <vector>

#include "rewrite/expression.h"
#include "rewrite/rule_set.h"

namespace anfora::rewrite {

// Binds in `match` the applications of the rule's form that go with the root, at least two: of the same operand, with the same attributes,
// of one class operator and with equal values of what stands behind `by`; those for which the condition behind `where` does not hold are
// left out. They are in the order of their constants, not of the graph's nodes. Returns them, parallel to the lists of `match`;
// empty: there is no group with this root. Linear in the number of users of the operand, of which up to kMostInGroup are looked at.
std::vector<ir::Apply*> match_group(const Equation& equation, ir::Apply& root, Rewriter& rewriter, Match& match);

}  // namespace anfora::rewrite
