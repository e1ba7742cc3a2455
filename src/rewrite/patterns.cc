#include "rewrite/patterns.h"

#include <algorithm>

#include "anfora/error.h"
#include "rewrite/parse_rules.h"

namespace anfora::rewrite {

Patterns::Patterns(ir::Context& context, std::string_view text, std::string_view file) {
  parse_patterns(context, text, file, patterns_);
}

ir::Node* Patterns::Found::operator[](std::string_view variable) const {
  const auto slot = std::ranges::find(pattern.variables, variable);
  if (slot == pattern.variables.end()) throw Error(ErrorCode::Internal, "no variable of the pattern");
  return match.nodes[static_cast<size_t>(slot - pattern.variables.begin())];
}

bool Patterns::match(std::string_view name, ir::Node* root, FunctionRef<bool(const Found&)> accept) const {
  const auto pattern = std::ranges::find(patterns_, name, &Equation::name);
  if (pattern == patterns_.end()) throw Error(ErrorCode::Internal, "no pattern of that name");
  if (!root || !root->is_apply()) return false;
  Match match(pattern->slots);
  const Found found{*pattern, match};
  // What attributes are compared with are constants here.
  auto evaluate = [](const Expression& e) { return e.literal; };
  return for_each_match(pattern->pattern, *root->as_apply(), match, evaluate, [&] { return accept(found); });
}

bool Patterns::match(std::string_view name, ir::Node* root) const {
  return match(name, root, [](const Found&) { return true; });
}

}  // namespace anfora::rewrite
