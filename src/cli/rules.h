// Rules by name and from files, for the commands that take either.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rewrite/rule_set.h"

namespace anfora::cli {

// The built-in rules, and before them those of the files. Throws UsageError where a file is none of rules.
std::shared_ptr<rewrite::RuleSet> rules_with(ir::Context& context, const std::vector<std::string>& files);

// Null for a rule that is a function. Throws NotFound, with the name that was probably meant.
const rewrite::Equation* find_rule(const rewrite::RuleSet& rules, const std::string& name);

// A JSON object a remark, each on a line of its own.
std::string remark_lines(const rewrite::Remarks& remarks);

}  // namespace anfora::cli
