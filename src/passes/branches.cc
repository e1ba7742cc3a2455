// Branches: functions that a Switch chooses between, as import makes them from If.
//
//     %r = call Switch(%c, @then, @else)()
//
//   - equal-branches    both are one function (equal ones are, see cse.cc): the condition does not matter.
//   - known-condition   in @then, %c is true, and false in @else: also where another Switch there asks for it again.
//   - negated-condition Switch(Not(%c), @f, @g) = Switch(%c, @g, @f).
//   - select            branches that compute nothing and differ in one small value: Where(%c, …, …).
//   - common-code       what both branches compute from values outside of them is computed before, once.
//   - sunk              what only one branch reads is computed there, and not at all where the other one is taken:
//
//     %e = Exp(%x)                                       →     %r = call Switch(%c, @then, @else)()
//     %r = call Switch(%c, @then, @else)()                     graph @then() in @main { return Neg(Exp(%x)) }
//     graph @then() in @main { return Neg(%e) }                graph @else() in @main { return %x }
//     graph @else() in @main { return %x }
//
// A value sinks as deep as branches are nested, but never into a function that may be called more often than the graph that
// it was in: not into loops, nor into a branch that others call, too. Common code is not taken out of the branches of a
// loop's test, one of which is its end. Users are sunk before what they use, so that one walk moves whole expressions.
// Linear, but for the depth of nesting.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <ranges>
#include <vector>

#include "analysis/calls.h"
#include "analysis/cost.h"
#include "ir/order.h"
#include "passes/expression.h"
#include "passes/pass.h"

namespace anfora::passes {

extern const Pass kBranches;

namespace {

using namespace ir;

constexpr std::string_view kEqualBranches = "equal-branches";
constexpr std::string_view kKnown = "known-condition";
constexpr std::string_view kNegated = "negated-condition";
constexpr std::string_view kSelect = "select";
constexpr std::string_view kCommonCode = "common-code";
constexpr std::string_view kSunk = "sunk";

// Bytes of a value that is selected by Where, which copies it, instead of by a choice, which may not.
constexpr double kMostSelected = 1 << 16;

bool is_movable(const Apply& node) {
  if (node.primitive() == Primitive::TupleGetItem) return true;
  return node.primitive() == Primitive::Operation && node.op().known && node.op().effect == Effect::Pure;
}

class Branches {
 public:
  explicit Branches(PassContext& context) : context_(context), module_(context.module) {}

  size_t run() {
    if (module_.graphs().size() == 1) return 0;
    ModuleOrder order = topological_order(module_);
    analysis::CallOrder calls(order);
    for (const GraphOrder& graph : order.graphs) {
      nodes_of_.emplace(graph.graph, graph.nodes);
      if (calls.is_recursive(graph.graph)) recursive_.insert(graph.graph);
    }
    for (const GraphOrder& graph : order.graphs) {
      for (Apply* node : graph.nodes) {
        bool is_choice = node->primitive() == Primitive::Switch && !node->is_erased();
        if (is_choice) simplify(*node);
      }
    }
    find_branches(order);
    // Inner graphs last, so that what sinks goes on sinking there; users before what they use.
    std::ranges::stable_sort(order.graphs, {}, [](const GraphOrder& g) { return g.graph->depth(); });
    for (const GraphOrder& graph : order.graphs) {
      for (Apply* node : graph.nodes | std::views::reverse) {
        if (!node->is_erased() && is_movable(*node)) sink(*node);
      }
    }
    return changes_;
  }

 private:
  // One Switch ------------------------------------------------------------------------------------------------------
  void simplify(Apply& choice) {
    if (choice.input(1) == choice.input(2)) {
      context_.remarks.applied(kBranches.name, kEqualBranches, choice);
      module_.replace(&choice, choice.input(1));
      module_.erase(&choice);
      ++changes_;
      return;
    }
    Graph *f = constant_function(choice.input(1)), *g = constant_function(choice.input(2));
    if (!f || !g || !f->return_node() || !g->return_node()) return;
    if (f->value()->has_one_use()) tell_condition(choice, *f, true);
    if (g->value()->has_one_use()) tell_condition(choice, *g, false);
    if (recursive_.contains(f) || recursive_.contains(g)) return;
    if (Apply* negation = choice.input(0)->as_apply(); negation && negation->is("Not")) {
      context_.remarks.applied(kBranches.name, kNegated, choice);
      module_.set_operand(&choice, 0, negation->input(0));
      module_.set_operand(&choice, 1, g->value());
      module_.set_operand(&choice, 2, f->value());
      ++changes_;
      return;
    }
    if (!is_only_called_here(choice)) return;
    if (select(choice, *f, *g)) return;
    // Functions of an outer graph do not see what is computed in front of the choice.
    auto is_of_choice = [&](const Graph& branch) { return branch.value()->has_one_use() && branch.parent() == choice.graph(); };
    if (is_of_choice(*f) && is_of_choice(*g)) take_out_common(choice, *f, *g);
  }

  static bool is_only_called_here(const Apply& choice) {
    return choice.has_uses() && std::ranges::all_of(choice.uses(), [&](const Use& use) {
             return use.user->primitive() == Primitive::Call && use.index() == 0 && use.user->graph() == choice.graph();
           });
  }

  void tell_condition(const Apply& choice, const Graph& branch, bool value) {
    Node* condition = choice.input(0);
    const Type* type = condition->type();
    auto shape = type && type->is_tensor() && type->dtype() == DType::Bool ? type->static_shape() : std::nullopt;
    if (condition->is_value() || !shape || element_count(*shape) != 1) return;
    std::vector<const Use*> inside;
    for (const Use& use : condition->uses()) {
      if (use.user->graph()->is_inside(&branch)) inside.push_back(&use);
    }
    if (inside.empty()) return;
    Tensor known = Tensor::scalar<bool>(value).reshaped(*shape);
    for (const Use* use : inside) {
      context_.remarks.applied(kBranches.name, kKnown, *use->user, value ? "true there" : "false there");
      module_.set_operand(use->user, use->index(), module_.constant(known));
      ++changes_;
    }
  }

  // Branches without a computation, of one value.
  bool select(Apply& choice, const Graph& f, const Graph& g) {
    Node *a = f.result(), *b = g.result();
    const Type *type = a->type(), *condition = choice.input(0)->type();
    if (a->graph() == &f || b->graph() == &g || !type || type != b->type() || !type->is_tensor()) return false;
    if (constant_function(a) || constant_function(b) || !type->is_static()) return false;
    if (analysis::bytes_of(type) > kMostSelected || !condition || !condition->is_static() || condition->rank() != 0) {
      return false;
    }
    std::vector<Apply*> calls;
    for (const Use& use : choice.uses()) calls.push_back(use.user);
    for (Apply* call : calls) {
      Apply* made = context_.apply(kBranches.name, kSelect, *call, "Where", std::array{choice.input(0), a, b});
      if (!made) return false;
      context_.remarks.applied(kBranches.name, kSelect, *call);
      module_.replace(call, made);
      module_.erase(call);
    }
    module_.erase(&choice);
    ++changes_;
    return true;
  }

  // Common code -----------------------------------------------------------------------------------------------------
  // Whether it could be computed before the branch.
  static bool is_free_of(const Apply& node, const Graph& branch) {
    return node.graph() == &branch && !node.is_erased() && is_movable(node) &&
           std::ranges::none_of(node.operands(), [&](const Use& use) {
             return constant_function(use.node) || (use.node->graph() && use.node->graph()->is_inside(&branch));
           });
  }

  void take_out_common(const Apply& choice, const Graph& f, const Graph& g) {
    auto nodes_f = nodes_of_.find(&f), nodes_g = nodes_of_.find(&g);
    if (nodes_f == nodes_of_.end() || nodes_g == nodes_of_.end()) return;
    boost::unordered_flat_map<uint64_t, std::vector<Apply*>> in_f;
    auto enter = [&](Apply* node) {
      if (is_free_of(*node, f)) in_f[hash_of_expression(*node)].push_back(node);
    };
    std::ranges::for_each(nodes_f->second, enter);
    if (in_f.empty()) return;
    for (Apply* node : nodes_g->second) {  // operands first
      if (!is_free_of(*node, g)) continue;
      auto found = in_f.find(hash_of_expression(*node));
      if (found == in_f.end()) continue;
      auto same = std::ranges::find_if(
          found->second, [&](Apply* other) { return other->graph() == &f && are_same_expression(*other, *node); });
      if (same == found->second.end()) continue;
      Apply* common = *same;
      found->second.erase(same);
      context_.remarks.applied(kBranches.name, kCommonCode, *common, fmt::format("of @{} and @{}", f.name(), g.name()));
      module_.move(common, choice.graph());
      module_.replace(node, common);
      module_.erase(node);
      for (const Use& use : common->uses()) enter(use.user);
      ++changes_;
    }
  }

  // Sinking ---------------------------------------------------------------------------------------------------------
  // Functions that are called at most once when the graph is executed in which they are: branches of one Switch, called once.
  void find_branches(const ModuleOrder& order) {
    for (const GraphOrder& graph : order.graphs) {
      const Use* use = graph.graph->value()->has_one_use() ? &*graph.graph->value()->uses().begin() : nullptr;
      const Apply* choice = use && use->index() > 0 ? use->user->as(Primitive::Switch) : nullptr;
      if (!choice || choice->graph() != graph.graph->parent() || !choice->has_one_use()) continue;
      if (is_only_called_here(*choice)) branches_.insert(graph.graph);
    }
  }

  void sink(Apply& node) {
    if (!node.has_uses()) return;
    Graph* place = nullptr;  // the innermost graph around all uses
    for (const Use& use : node.uses()) {
      Graph* user = use.user->graph();
      if (user == node.graph()) return;
      if (!place) place = user;
      while (!user->is_inside(place)) place = place->parent();
      if (place == node.graph()) return;
    }
    // From there outwards, the outermost graphs that are no branches stop it.
    Graph* deepest = place;
    for (Graph* g = place; g != node.graph(); g = g->parent()) {
      if (!branches_.contains(g)) deepest = g->parent();
    }
    if (deepest == node.graph()) return;
    context_.remarks.applied(kBranches.name, kSunk, node, fmt::format("into @{}", deepest->name()));
    module_.move(&node, deepest);
    ++changes_;
  }

  PassContext& context_;
  Module& module_;
  boost::unordered_flat_map<const Graph*, std::span<Apply* const>> nodes_of_;
  boost::unordered_flat_set<const Graph*> recursive_, branches_;
  size_t changes_ = 0;
};

size_t run_branches(PassContext& context) { return Branches(context).run(); }

}  // namespace

const Pass kBranches{"branches", "branches", "decide constant conditions, move code into the branch that needs it",
                     run_branches};

}  // namespace anfora::passes
