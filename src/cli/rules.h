// Rules from files and remarks, for the commands that take or write them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rewrite/rule_set.h"

namespace anfora::cli {

// The built-in rules, and before them those of the files. Throws UsageError where a file is none of rules.
std::shared_ptr<const rewrite::RuleSet> rules_with(ir::Context& context, const std::vector<std::string>& files);

// A JSON object a remark, each on a line of its own.
std::string remark_lines(const rewrite::Remarks& remarks);

}  // namespace anfora::cli
