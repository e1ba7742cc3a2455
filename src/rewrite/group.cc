#include "rewrite/group.h"

#include <algorithm>
#include <compare>
#include <cstring>

#include "ir/queries.h"
#include "support/integers.h"

namespace anfora::rewrite {

using namespace ir;

namespace {

// Users of a value that are looked at for each level of the pattern.
constexpr size_t kMostInGroup = 256;

struct Member {
  Match match;
  std::vector<Quantity> keys;
};

// A constant before another one: integers by their values, others by their bytes.
std::weak_ordering order(const Node* a, const Node* b) {
  const Tensor *x = constant_tensor(a), *y = constant_tensor(b);
  if (!x || !y) return (x != nullptr) <=> (y != nullptr);
  if (auto c = x->size() <=> y->size(); c != 0) return c;
  if (auto integers = integers_of(x)) {
    if (auto others = integers_of(y)) return *integers <=> *others;
  }
  if (auto c = x->dtype() <=> y->dtype(); c != 0 || x->dtype() == DType::String) return c;
  return std::memcmp(x->raw(), y->raw(), x->bytes()) <=> 0;
}

class Grouping {
 public:
  Grouping(const Equation& equation, Rewriter& rewriter)
      : equation_(equation), group_(*equation.group), rewriter_(rewriter) {}

  std::vector<Member> members(Apply& root) {
    auto first = member(root, nullptr);
    if (!first) return {};
    std::vector<Member> members;
    for (Apply* other : candidates(*first->match.nodes[static_cast<size_t>(group_.through)], root)) {
      auto next = other == &root ? first : member(*other, &*first);
      if (next) members.push_back(std::move(*next));
    }
    if (members.size() < 2 || !std::ranges::count(members, &root, &Grouping::root_of)) return {};
    std::ranges::stable_sort(members, [&](const Member& a, const Member& b) { return is_before(a, b); });
    return members;
  }
  static const Apply* root_of(const Member& member) { return member.match.applications.front(); }

 private:
  // The application as one that goes with the first; null: any.
  std::optional<Member> member(Apply& apply, const Member* first) {
    Member made{Match(equation_.slots), {}};
    Match& match = made.match;
    if (first) {
      const auto through = static_cast<size_t>(group_.through);
      match.nodes[through] = first->match.nodes[through];
      match.quantities = first->match.quantities;
      match.operators = first->match.operators;
      match.attribute_sets = first->match.attribute_sets;
    }
    const Scope scope(rewriter_, match);
    auto accept = [&] {
      if (group_.condition && !is_true(evaluate(*group_.condition, scope))) return false;
      made.keys.clear();
      for (const Expression& key : group_.keys) made.keys.push_back(evaluate(key, scope));
      return !first || std::ranges::equal(made.keys, first->keys, [&](const Quantity& a, const Quantity& b) {
        return equal(a, b, scope.dims()) == true;
      });
    };
    auto value = [&](const Expression& e) { return evaluate(e, scope); };
    return for_each_match(equation_.pattern, apply, match, value, accept) ? std::optional(std::move(made))
                                                                          : std::nullopt;
  }

  // The applications as far below the operand as the root of the pattern is.
  std::vector<Apply*> candidates(Node& operand, const Apply& root) const {
    std::vector<Apply*> level;
    std::vector<Node*> above{&operand};
    for (int depth = 0; depth < group_.depth; ++depth) {
      level.clear();
      for (Node* node : above) {
        for (const Use& use : node->uses()) {
          const bool is_new = use.user->graph() == root.graph() && !std::ranges::count(level, use.user);
          if (is_new) level.push_back(use.user);
          if (level.size() > kMostInGroup) return {};
        }
      }
      above.assign(level.begin(), level.end());
    }
    return level;
  }

  bool is_before(const Member& a, const Member& b) const {
    for (const auto& [node, list] : group_.lists) {
      const Node *x = a.match.nodes[static_cast<size_t>(node)], *y = b.match.nodes[static_cast<size_t>(node)];
      const auto c = x && y ? order(x, y) : std::weak_ordering::equivalent;
      if (c != 0) return c < 0;
    }
    return false;
  }

  const Equation& equation_;
  const Equation::Group& group_;
  Rewriter& rewriter_;
};

}  // namespace

std::vector<Apply*> match_group(const Equation& equation, Apply& root, Rewriter& rewriter, Match& match) {
  const std::vector<Member> members = Grouping(equation, rewriter).members(root);
  if (members.empty()) return {};
  std::vector<Apply*> roots;
  const auto own = std::ranges::find(members, &root, &Grouping::root_of);
  match = own->match;
  for (const Member& member : members) {
    roots.push_back(member.match.applications.front());
    for (const auto& [node, list] : equation.group->lists)
      match.lists[static_cast<size_t>(list)].push_back(member.match.nodes[static_cast<size_t>(node)]);
    if (&member == &*own) continue;
    match.applications.insert(match.applications.end(), member.match.applications.begin(),
                              member.match.applications.end());
  }
  return roots;
}

}  // namespace anfora::rewrite
