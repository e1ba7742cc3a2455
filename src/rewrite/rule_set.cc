#include "rewrite/rule_set.h"

#include <algorithm>

#include "rewrite/parse_rules.h"
#include "rewrite/termination.h"

namespace anfora::rewrite {

RuleSet::RuleSet(ir::Context& context) : context_(context) {}
RuleSet::~RuleSet() = default;

void RuleSet::read(std::string_view text, std::string_view file) {
  size_t before = equations_.size();
  parse_rules(context_, text, file, classes_, weights_, equations_);
  for (size_t i = before; i < equations_.size(); ++i) {
    check_termination(equations_[i], weights_);
    tree_.insert(equations_[i].pattern, static_cast<uint32_t>(i));
  }
}

void RuleSet::add(std::span<const Rule> rules) {
  for (const Rule& rule : rules) {
    functions_.push_back(&rule);
    by_operator_[&context_.get_operator(rule.op)].push_back(&rule);
  }
}

void RuleSet::candidates(const ir::Apply& root, std::vector<const Equation*>& found) const {
  std::vector<uint32_t> indices;
  tree_.find(root, indices);
  for (uint32_t index : indices) found.push_back(&equations_[index]);
}

std::span<const Rule* const> RuleSet::functions_of(const ir::Operator& op) const {
  auto found = by_operator_.find(&op);
  return found == by_operator_.end() ? std::span<const Rule* const>() : found->second;
}

}  // namespace anfora::rewrite
