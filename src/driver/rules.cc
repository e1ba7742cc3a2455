#include "driver/rules.h"

#include <fmt/format.h>

#include <string>

#include "anfora/error.h"
#include "passes/pass.h"
#include "support/mapped_file.h"
#include "support/nearest.h"

namespace anfora::driver {

std::shared_ptr<const rewrite::RuleSet> rules_with(ir::Context& context, const std::vector<std::filesystem::path>& files) {
  std::vector<passes::RuleText> own;
  for (const std::filesystem::path& file : files) {
    own.push_back({std::string(MappedFile::open(file)->text()), file.string()});
  }
  return passes::standard_rules(context, own);
}

std::shared_ptr<const rewrite::RuleSet> all_rules_with(ir::Context& context, const std::vector<std::filesystem::path>& files) {
  auto all = std::make_shared<rewrite::RuleSet>(context);
  all->add(*rules_with(context, files));
  all->add(*passes::rules_of_passes());
  return all;
}

const rewrite::Equation* find_rule(const rewrite::RuleSet& rules, std::string_view name) {
  std::vector<std::string> names;
  for (const rewrite::Equation& equation : rules.equations()) {
    if (equation.name == name) return &equation;
    names.emplace_back(equation.name);
  }
  for (const rewrite::Rule* rule : rules.functions()) {
    if (rule->name == name) return nullptr;
    names.emplace_back(rule->name);
  }
  std::string_view meant = nearest_name(name, names);
  throw Error(ErrorCode::NotFound, fmt::format("there is no rule {}", name))
      .with_hint(meant.empty() ? "anfora rules lists them" : fmt::format("did you mean {}?", meant));
}

}  // namespace anfora::driver
