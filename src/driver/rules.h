// Rules from files, beside the built-in ones.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "rewrite/rule_set.h"

namespace anfora::driver {

// The built-in rules, and before them those of the files. Throws NotFound, Io, InvalidArgument where a file is none of rules.
std::shared_ptr<rewrite::RuleSet> rules_with(ir::Context& context, const std::vector<std::filesystem::path>& files);

}  // namespace anfora::driver
