// Lambda lifting: the free variables of a function become parameters, and the function moves to the top level, where all of its calls are
// known. After T. Johnsson, "Lambda lifting: transforming programs to recursive equations", 1985.
//
//     graph @main(%x, %n) { return call @pow(%n) }                  graph @main(%x, %n) { return call @pow(%n, %x) }
//     graph @pow(%k) in @main {                                     graph @pow(%k, %x) {
//       return call Switch(Greater(%k, 0), @more, @done)()            return call Switch(Greater(%k, 0), @more, @done)(%k, %x)
//     }                                                             }
//     graph @more() in @pow { … %k … %x … call @pow(…) }            graph @more(%k, %x) { … call @pow(…, %x) }
//
// Differentiation wants it so: what a function reads is then in its signature, and the sensitivities of its free variables are results as
// those of its parameters are. Functions between which a call chooses get the same parameters. So a function that calls choose beside
// different ones is copied first, that each copy has one set of parameters: what the other choice reads may be the result of this call.
// A function stays where it is if it is also a value (kept, passed on, returned), or if a call of it could not see what another alternative
// of some call reads. Its free variables stay free ones, of the functions around it that stay, too.
//
// `signatures` does the opposite for what a loop hands on to itself unchanged: export and kernels want that captured.
//
// Linear in the size of the module plus the number of pairs of a function and a free variable.
#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <map>
#include <vector>

#include "analysis/calls.h"
#include "ir/clone.h"
#include "ir/order.h"
#include "passes/pass.h"
#include "support/union_find.h"

namespace anfora::passes {

extern const Pass kLambdaLift;

namespace {

using namespace ir;

// Gives functions that calls choose beside different ones a copy for each such choice, where these differ in what they read. Not
// recursive ones, copies of which would be without end. Whether there were any.
class Separation {
 public:
  explicit Separation(Module& module) : module_(module), order_(topological_order(module)), calls_(order_), free_(order_) {}

  bool run() {
    if (free_.none()) return false;
    bool changed = false;
    for (const GraphOrder& graph : order_.graphs) {
      for (Apply* node : graph.nodes) {
        if (node->primitive() == Primitive::Call) changed |= separate(*node);
      }
    }
    return changed;
  }

 private:
  using Choice = std::vector<Graph*>;

  bool separate(const Apply& call) {
    const analysis::Callees callees = analysis::known_callees(call);
    Choice choice(callees.begin(), callees.end());
    // A copy: the next round knows what it reads.
    if (std::ranges::any_of(choice, [&](const Graph* g) { return calls_.component(g) == calls_.kNone; })) return false;
    std::ranges::sort(choice, {}, [](const Graph* g) { return g->value()->id(); });
    bool changed = false;
    for (Graph* callee : callees) {
      const auto [first, is_new] = choices_.try_emplace(callee, choice);
      if (is_new || first->second == choice || calls_.is_recursive(callee) || variables(first->second) == variables(choice)) continue;
      Graph*& copy = copies_[{callee, choice}];
      if (!copy) copy = Cloner(module_).copy(*callee, callee->parent());
      refer(call, callee, copy);
      changed = true;
    }
    return changed;
  }

  void refer(const Apply& call, const Graph* from, Graph* to) {
    Apply* choice = call.input(0)->as_apply();
    for (size_t i = 1; choice && i < choice->num_inputs(); ++i) {
      if (constant_function(choice->input(i)) == from) module_.set_operand(choice, i, to->value());
    }
    if (!choice) module_.set_operand(const_cast<Apply*>(&call), 0, to->value());
  }

  std::vector<const Node*> variables(const Choice& choice) const {
    std::vector<const Node*> all;
    for (const Graph* graph : choice) all.insert(all.end(), free_.of(graph).begin(), free_.of(graph).end());
    std::ranges::sort(all, {}, &Node::id);
    all.erase(std::ranges::unique(all).begin(), all.end());
    return all;
  }

  Module& module_;
  const ModuleOrder order_;
  const analysis::CallOrder calls_;
  const FreeVariables free_;
  boost::unordered_flat_map<const Graph*, Choice> choices_;  // the first that each function is in
  std::map<std::pair<const Graph*, Choice>, Graph*> copies_;
};

class LambdaLifting {
 public:
  explicit LambdaLifting(PassContext& context) : context_(context), module_(context.module) {}

  size_t run() {
    const ModuleOrder order = topological_order(module_, Coverage::All);
    for (const GraphOrder& graph : order.graphs) {
      index_.emplace(graph.graph, members_.size());
      members_.push_back({graph.graph, analysis::callers_of(*graph.graph)});
    }
    find_groups(FreeVariables(order));
    while (exclude()) {
    }
    size_t changes = 0;
    for (const GraphOrder& graph : order.graphs) changes += is_lifted(graph.graph);
    if (changes == 0) return 0;
    add_parameters();
    for (const GraphOrder& graph : order.graphs) {
      rewrite_operands(*graph.graph, graph.nodes);
      rewrite_operands(*graph.graph, graph.dead);
    }
    for (const GraphOrder& graph : order.graphs) {
      pass_variables(graph.nodes);
      pass_variables(graph.dead);
    }
    for (const GraphOrder& graph : order.graphs) {
      if (is_lifted(graph.graph)) lift(*graph.graph);
    }
    return changes;
  }

 private:
  struct Member {
    Graph* graph;
    analysis::Callers callers;
    boost::unordered_flat_map<const Node*, Node*> parameters = {};  // for its free variables
  };
  // Functions between which calls choose.
  struct Group {
    bool is_lifted = false;
    size_t size = 0;
    std::vector<Node*> variables;  // free ones of any of them
  };

  Group& group_of(const Graph* graph) { return groups_[alike_.find(index_.at(graph))]; }
  bool is_lifted(const Graph* graph) { return index_.contains(graph) && group_of(graph).is_lifted; }

  void find_groups(const FreeVariables& free) {
    alike_ = UnionFind(members_.size());
    groups_.resize(members_.size());
    for (size_t i = 0; i < members_.size(); ++i) {
      for (const Apply* call : members_[i].callers.calls) {
        for (const Graph* callee : analysis::known_callees(*call)) {
          if (index_.contains(callee)) alike_.unite(i, index_.at(callee));
        }
      }
    }
    for (Member& member : members_) {
      Group& group = group_of(member.graph);
      ++group.size;
      for (Node* variable : free.of(member.graph)) {
        if (!std::ranges::count(group.variables, variable)) group.variables.push_back(variable);
      }
      group.is_lifted = group.is_lifted || member.graph->parent();
    }
    for (Member& member : members_) {
      if (!member.callers.all_known || member.callers.calls.empty()) group_of(member.graph).is_lifted = false;
    }
  }

  // Drops a group where a call does not see all that it would hand over, or a body uses a function that would be out of sight. Whether any
  // was dropped: another one may depend on it.
  bool exclude() {
    bool changed = false;
    for (Member& member : members_) {
      Group& group = group_of(member.graph);
      if (!group.is_lifted || (sees_arguments(member, group) && sees_functions(*member.graph))) continue;
      group.is_lifted = false;
      changed = true;
    }
    return changed;
  }
  static bool sees_arguments(const Member& member, const Group& group) {
    return std::ranges::all_of(member.callers.calls, [&](const Apply* call) {
      // What none of the functions that this call chooses between reads may be computed of its result.
      const bool reads_all = analysis::known_callees(*call).size() == group.size;
      return std::ranges::all_of(group.variables, [&](const Node* v) {
        return call->graph()->is_inside(v->graph()) && (reads_all || !depends_on(v, call));
      });
    });
  }
  // By way of operands, and of what functions among them compute.
  static bool depends_on(const Node* node, const Node* on) {
    std::vector<const Node*> stack{node};
    boost::unordered_flat_set<const Node*> seen{node};
    auto visit = [&](const Node* next) {
      if (next && seen.insert(next).second) stack.push_back(next);
    };
    while (!stack.empty()) {
      const Node* next = stack.back();
      stack.pop_back();
      if (next == on) return true;
      if (const Graph* function = constant_function(next)) visit(function->result());
      if (const Apply* apply = next->as_apply()) {
        for (const Use& use : apply->operands()) visit(use.node);
      }
    }
    return false;
  }
  // A function that stays inside another one is seen there and below alone.
  bool sees_functions(const Graph& graph) {
    for (const Apply* node = graph.first_node(); node; node = node->next_in_graph()) {
      for (const Use& use : node->operands()) {
        const Graph* function = constant_function(use.node);
        if (!function || is_lifted(function) || !function->parent() || function->parent()->is_inside(&graph)) continue;
        return false;
      }
    }
    return std::ranges::all_of(members_, [&](const Member& inner) {  // in what stays inside of it
      return inner.graph->parent() != &graph || is_lifted(inner.graph) || sees_functions(*inner.graph);
    });
  }

  void add_parameters() {
    for (Member& member : members_) {
      if (!is_lifted(member.graph)) continue;
      for (Node* variable : group_of(member.graph).variables) {
        member.parameters[variable] = module_.add_parameter(member.graph, variable->type(), variable->name());
      }
    }
  }

  // The variable as a function, or the innermost lifted one around it, has it.
  Node* seen_from(const Graph* graph, Node* variable) {
    for (const Graph* g = graph; g && g != variable->graph(); g = g->parent()) {
      if (!is_lifted(g)) continue;
      const auto& parameters = members_[index_.at(g)].parameters;
      auto found = parameters.find(variable);
      return found == parameters.end() ? variable : found->second;
    }
    return variable;
  }

  void rewrite_operands(const Graph& graph, std::span<Apply* const> nodes) {
    for (Apply* node : nodes) {
      for (size_t i = 0; i < node->num_inputs(); ++i) {
        Node* operand = node->input(i);
        if (!operand->graph() || operand->graph() == &graph) continue;
        if (Node* seen = seen_from(&graph, operand); seen != operand) module_.set_operand(node, i, seen);
      }
    }
  }

  void pass_variables(std::span<Apply* const> nodes) {
    for (Apply* node : nodes) {
      if (node->primitive() == Primitive::Call) pass_variables(*node);
    }
  }

  void pass_variables(Apply& call) {
    const analysis::Callees callees = analysis::known_callees(call);
    if (callees.empty() || !is_lifted(callees[0])) return;
    Operands inputs = operands_of(call);
    for (Node* variable : group_of(callees[0]).variables) {
      Node* seen = seen_from(call.graph(), variable);
      const auto replaced = replaced_.find(seen);  // a variable may itself be such a call
      inputs.push_back(replaced == replaced_.end() ? seen : replaced->second);
    }
    replaced_.emplace(&call, with_operands(module_, call, inputs));
  }

  void lift(Graph& graph) {
    module_.set_parent(&graph, nullptr);
    analysis::retype(graph);
    context_.remarks.applied(kLambdaLift.name, kLambdaLift.name, *graph.value(),
                             fmt::format("{} free variables became parameters", group_of(&graph).variables.size()));
  }

  PassContext& context_;
  Module& module_;
  boost::unordered_flat_map<const Graph*, size_t> index_;  // into the next
  std::vector<Member> members_;
  UnionFind alike_{0};
  std::vector<Group> groups_;  // that of a representative is that of all
  boost::unordered_flat_map<const Node*, Node*> replaced_;  // calls
};

size_t run_lambda_lift(PassContext& context) {
  size_t copied = 0;
  while (Separation(context.module).run()) ++copied;
  return copied + LambdaLifting(context).run();
}

}  // namespace

const Pass kLambdaLift{"lambda-lift", "lambda lifting", "free variables of known functions become parameters", run_lambda_lift};

}  // namespace anfora::passes
