// Rules from files, beside the built-in ones, and by their names.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "rewrite/rule_set.h"

namespace anfora::driver {

// The built-in rules, and before them those of the files. Throws NotFound, Io, InvalidArgument where a file is none of rules.
std::shared_ptr<const rewrite::RuleSet> rules_with(ir::Context& context, const std::vector<std::filesystem::path>& files);
// The same, and those of passes: all that remarks may name.
std::shared_ptr<const rewrite::RuleSet> all_rules_with(ir::Context& context, const std::vector<std::filesystem::path>& files);

// Null for a rule that is a function. Throws NotFound, with the name that was probably meant.
const rewrite::Equation* find_rule(const rewrite::RuleSet& rules, std::string_view name);

}  // namespace anfora::driver
