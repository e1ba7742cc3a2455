// Why applying equations over and over ends.
//
// Each equation must make what it matches lighter: the weight of a term is the sum of the weights of its operators and leaves,
// and every variable occurs on the right at most as often as on the left, so that lighter holds for all values of the variables
// (the order of D. Knuth and P. Bendix, "Simple word problems in universal algebras", 1970, without precedences). Operators
// weigh kOperatorWeight unless a rule file says otherwise ("weight Pow = 8"); what works on constants only weighs as a
// constant, since it is folded. An equation that is not lighter says why it ends all the same: [ordered '…'].
#pragma once

#include "rewrite/parse_rules.h"

namespace anfora::rewrite {

inline constexpr int kOperatorWeight = 4;
inline constexpr int kLeafWeight = 1;

// Throws InvalidArgument for an equation that is neither lighter nor ordered.
void check_termination(const Equation& equation, const OperatorWeights& weights);

}  // namespace anfora::rewrite
