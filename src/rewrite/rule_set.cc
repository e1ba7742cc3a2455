#include "rewrite/rule_set.h"

#include <algorithm>
#include <ranges>

#include "rewrite/parse_rules.h"
#include "rewrite/termination.h"

namespace anfora::rewrite {

Promise promise_of(const Equation& equation, std::span<ir::Apply* const> matched) {
  auto is_float_tensor = [](const ir::Node* n) {
    return n->type() && n->type()->is_tensor() && is_float(n->type()->dtype());
  };
  bool floats = std::ranges::any_of(matched, [&](const ir::Apply* node) {
    return is_float_tensor(node) ||
           std::ranges::any_of(node->operands(), [&](const ir::Use& use) { return is_float_tensor(use.node); });
  });
  return floats ? equation.on_floats : equation.on_others;
}

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

void RuleSet::add(Equation equation) {
  equations_.push_back(std::move(equation));
  tree_.insert(equations_.back().pattern, static_cast<uint32_t>(equations_.size() - 1));
}

void RuleSet::add(const RuleSet& other) {
  for (const Equation& equation : other.equations_) add(equation);
  for (const Rule* function : other.functions_) add(std::span(function, 1));
  classes_.insert(other.classes_.begin(), other.classes_.end());
  weights_.insert(other.weights_.begin(), other.weights_.end());
}

void RuleSet::add(std::span<const Rule> rules) {
  for (const Rule& rule : rules) {
    functions_.push_back(&rule);
    for (auto root : std::views::split(rule.roots, ' ')) {
      by_operator_[&context_.get_operator(std::string_view(root.begin(), root.end()))].push_back(&rule);
    }
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
