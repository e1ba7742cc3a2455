#include "rewrite/rule_set.h"

#include <algorithm>
#include <ranges>
#include <set>

#include "anfora/error.h"
#include "rewrite/compiled_rules.h"
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

namespace {

std::vector<const ir::Operator*> operators_of(const Roots& roots, const ir::Context& context) {
  std::vector<const ir::Operator*> operators;
  if (roots.are) {
    operators = context.operators();
    std::erase_if(operators, [&](const ir::Operator* op) { return !roots.are(*op); });
  }
  for (auto name : std::views::split(roots.names, ' ')) {
    operators.push_back(&context.get_operator(std::string_view(name.begin(), name.end())));
  }
  return operators;
}

}  // namespace

RuleSet::RuleSet(ir::Context& context) : context_(context) {}
RuleSet::~RuleSet() = default;

void RuleSet::read(std::string_view text, std::string_view file) {
  std::set<std::string_view> taken;
  for (size_t i = 0; i < own_.size() + chosen_.size(); ++i) taken.insert(name(i));
  const size_t before = own_.size();
  parse_rules(context_, text, file, classes_, weights_, taken, own_);
  for (size_t i = before; i < own_.size(); ++i) {
    check_termination(own_[i], weights_);
    tree_.insert(own_[i].pattern, static_cast<uint32_t>(i));
  }
}

void RuleSet::add(Equation equation) {
  own_.push_back(std::move(equation));
  tree_.insert(own_.back().pattern, static_cast<uint32_t>(own_.size() - 1));
}

void RuleSet::add(const CompiledRules& compiled, std::span<const uint32_t> chosen) {
  if (compiled_ && compiled_ != &compiled) throw Error(ErrorCode::Internal, "a set has compiled rules already");
  compiled_ = &compiled;
  is_chosen_.resize(compiled.entries().size());
  for (const uint32_t i : chosen) {
    if (!is_chosen_[i]) chosen_.push_back(i);
    is_chosen_[i] = true;
  }
  classes_.insert(compiled.classes().begin(), compiled.classes().end());
  weights_.insert(compiled.weights().begin(), compiled.weights().end());
}

void RuleSet::add(const RuleSet& other) {
  for (const Equation& equation : other.own_) add(equation);
  if (other.compiled_) add(*other.compiled_, other.chosen_);
  for (const Rule* function : other.functions_) add(std::span(function, 1));
  classes_.insert(other.classes_.begin(), other.classes_.end());
  weights_.insert(other.weights_.begin(), other.weights_.end());
}

void RuleSet::add(std::span<const Rule> rules) {
  for (const Rule& rule : rules) {
    functions_.push_back(&rule);
    for (const ir::Operator* op : operators_of(rule.roots, context_)) by_operator_[op].push_back(&rule);
  }
}

const Equation& RuleSet::equation(size_t i) const {
  return i < own_.size() ? own_[i] : compiled_->equation(chosen_[i - own_.size()]);
}

std::string_view RuleSet::name(size_t i) const {
  return i < own_.size() ? own_[i].name : compiled_->entries()[chosen_[i - own_.size()]].name;
}

const Equation* RuleSet::find(std::string_view wanted) const {
  for (size_t i = 0; i < own_.size() + chosen_.size(); ++i) {
    if (name(i) == wanted) return &equation(i);
  }
  return nullptr;
}

void RuleSet::candidates(const ir::Apply& root, std::vector<const Equation*>& found) const {
  std::vector<uint32_t> indices;
  tree_.find(root, indices);
  for (uint32_t index : indices) found.push_back(&own_[index]);
  if (!compiled_) return;
  indices.clear();
  compiled_->find(root, indices);
  for (uint32_t index : indices) {
    if (is_chosen_[index]) found.push_back(&compiled_->equation(index));
  }
}

RuleSet::Compiled RuleSet::compiled() const { return compile_rules(own_, classes_, weights_, tree_); }

std::span<const Rule* const> RuleSet::functions_of(const ir::Operator& op) const {
  auto found = by_operator_.find(&op);
  return found == by_operator_.end() ? std::span<const Rule* const>() : found->second;
}

}  // namespace anfora::rewrite
