#include "rewrite/termination.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "anfora/error.h"
#include "rewrite/expression.h"

namespace anfora::rewrite {
namespace {

using Leaf = std::pair<bool, int>;  // of a list, slot

// Functions of guards that hold for constants only.
constexpr std::string_view kTellOfConstants[] = {"const", "value", "combinable", "addable", "subtractable"};

class Scale {
 public:
  Scale(const Equation& equation, const OperatorWeights& weights) : equation_(equation), weights_(weights) {
    if (equation.guard) find_constants(*equation.guard);
  }

  bool is_lighter(const Term& result) {
    std::map<Leaf, int> left, right;
    int before = weight(equation_.pattern, left, false), after = weight(result, right, true);
    bool no_more_leaves = std::ranges::all_of(
        right, [&](const auto& leaf) { return constants_.contains(leaf.first) || leaf.second <= left[leaf.first]; });
    return no_more_leaves && after < before;
  }

 private:
  // const(c), combinable(c, d), value(c) == 2: what the guard says of constants, joined by "and".
  void find_constants(const Expression& e) {
    if (e.kind == Expression::Kind::And)
      std::ranges::for_each(e.operands, [&](const Expression& o) { find_constants(o); });
    if (e.kind != Expression::Kind::Call) return;
    bool tells = std::ranges::count(kTellOfConstants, e.function->name) > 0;
    for (const Expression& operand : e.operands) {
      bool node = operand.kind == Expression::Kind::Node, list = operand.kind == Expression::Kind::NodeList;
      if (tells && (node || list)) constants_.insert({{list, operand.slot}, true});
      find_constants(operand);
    }
  }

  bool is_constant(const Term& t) const {
    switch (t.kind) {
      case Term::Kind::Number:
      case Term::Kind::None:
      case Term::Kind::Computed:
      case Term::Kind::Folded: return true;
      case Term::Kind::Variable: return constants_.contains({t.in_list, t.slot});
      case Term::Kind::Apply:
      case Term::Kind::Item: return std::ranges::all_of(t.operands, [&](const Term& o) { return is_constant(o); });
      default: return false;
    }
  }

  // A class weighs what the lightest of its operators does on the left, and the same on the right.
  int weight_of(const Term& t) const {
    if (t.operators.empty()) return kOperatorWeight;
    int least = std::numeric_limits<int>::max();
    for (const ir::Operator* op : t.operators) {
      auto given = weights_.find(op);
      least = std::min(least, given == weights_.end() ? kOperatorWeight : given->second);
    }
    return least;
  }

  int weight(const Term& t, std::map<Leaf, int>& leaves, bool folds) {
    if (folds && t.kind == Term::Kind::Apply && is_constant(t)) return kLeafWeight;
    if (t.kind == Term::Kind::Variable) {
      ++leaves[{t.in_list, t.slot}];
      if (auto named = named_.find(t.slot); !t.in_list && named != named_.end()) return named->second;
    }
    if (t.kind == Term::Kind::Either) return least_weight(t, leaves);
    if (t.kind == Term::Kind::Item) return weight(t.operands[0], leaves, folds);
    if (t.kind != Term::Kind::Apply) return t.repeated || t.kind == Term::Kind::None ? 0 : kLeafWeight;
    int total = weight_of(t);
    for (const Term& operand : t.operands) total += weight(operand, leaves, folds);
    if (t.slot >= 0) {  // an application with a name may be part of the result as it is
      named_[t.slot] = total;
      ++leaves[{false, t.slot}];
    }
    return total;
  }

  // Of the choices: the lightest, and of each leaf the fewest that any of them has.
  int least_weight(const Term& either, std::map<Leaf, int>& leaves) {
    int least = std::numeric_limits<int>::max();
    std::optional<std::map<Leaf, int>> fewest;
    for (const Term& choice : either.operands) {
      std::map<Leaf, int> own;
      least = std::min(least, weight(choice, own, false));
      if (!fewest) fewest = own;
      for (auto& [leaf, count] : *fewest) count = std::min(count, own[leaf]);
    }
    for (const auto& [leaf, count] : *fewest) leaves[leaf] += count;
    return least;
  }

  const Equation& equation_;
  const OperatorWeights& weights_;
  std::map<Leaf, bool> constants_;
  std::map<int, int> named_;  // weights of applications with a name, by slot
};

}  // namespace

void check_termination(const Equation& equation, const OperatorWeights& weights) {
  if (!equation.order.empty() || equation.must_pay) return;
  Scale scale(equation, weights);
  auto has_around = [](auto&& self, const Term& t) -> bool {
    if (t.kind == Term::Kind::Folded) return false;  // a constant
    return t.kind == Term::Kind::Around ||
           std::ranges::any_of(t.operands, [&](const Term& operand) { return self(self, operand); });
  };
  for (const Term& result : equation.results) {
    const bool is_weighed = equation.also.empty() && !has_around(has_around, result);
    if (is_weighed && scale.is_lighter(result)) continue;
    throw Error(ErrorCode::InvalidArgument, fmt::format("rule {} does not make the graph lighter", equation.name))
        .at_location(equation.place + ":1")
        .with_hint("give the operators on the left more weight, or say why it ends: [exact, ordered 'the reason']");
  }
}

}  // namespace anfora::rewrite
