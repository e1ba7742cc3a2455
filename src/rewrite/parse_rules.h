// The reader of rule files; docs/rule-language.md has the grammar.
#pragma once

#include <deque>
#include <set>
#include <string_view>

#include "rewrite/rule_set.h"

namespace anfora::rewrite {

using OperatorClasses = boost::unordered_flat_map<std::string, std::vector<const ir::Operator*>>;
using OperatorWeights = boost::unordered_flat_map<const ir::Operator*, int>;

// Reads the text of a file into equations, whose names differ from those that are taken, classes and weights. Throws InvalidArgument at
// "file:line:column".
void parse_rules(ir::Context& context, std::string_view text, std::string_view file, OperatorClasses& classes,
                 OperatorWeights& weights, const std::set<std::string_view>& taken, std::deque<Equation>& equations);

}  // namespace anfora::rewrite
