#include "analysis/calls.h"

#include <algorithm>

namespace anfora::analysis {

using namespace ir;

CallOrder::CallOrder(const ModuleOrder& order) {
  for (const GraphOrder& g : order.graphs) {
    uses_.emplace(g.graph, std::vector<Graph*>());
    for (const auto* nodes : {&g.nodes, &g.dead}) {
      for (const Apply* node : *nodes) add_node(*g.graph, *node);
    }
  }
  for (const GraphOrder& g : order.graphs) visit(g.graph);
}

void CallOrder::add_node(const Graph& user, const Apply& node) {
  const Operator& op = node.op();
  bool is_opaque = node.primitive() == Primitive::Operation && (op.effect != Effect::Pure || !op.known);
  if (is_opaque || (node.primitive() == Primitive::Call && known_callees(node).empty())) impure_.insert(&user);
  for (const Use& use : node.operands()) {
    Graph* function = constant_function(use.node);
    if (!function) continue;
    uses_[&user].push_back(function);
    if (function == &user) recursive_.insert(function);
  }
}

void CallOrder::open(Graph* graph) {
  marks_[graph] = {.index = next_index_, .low = next_index_, .open = true};
  ++next_index_;
  component_.push_back(graph);
  stack_.push_back({graph});
}

void CallOrder::visit(Graph* root) {
  if (marks_.contains(root)) return;
  open(root);
  while (!stack_.empty()) {
    Frame& frame = stack_.back();
    Graph* graph = frame.graph;
    const std::vector<Graph*>& uses = uses_[graph];
    if (frame.next_use < uses.size()) {
      Graph* used = uses[frame.next_use++];
      auto mark = marks_.find(used);
      if (mark == marks_.end()) {
        open(used);
      } else if (mark->second.open) {
        marks_[graph].low = std::min(marks_[graph].low, mark->second.index);
      }
      continue;
    }
    stack_.pop_back();
    if (!stack_.empty()) {
      Mark& user = marks_[stack_.back().graph];
      user.low = std::min(user.low, marks_[graph].low);
    }
    if (marks_[graph].low == marks_[graph].index) close(graph);
  }
}

// The component whose first graph this is, is complete; the functions that it uses besides are so already.
void CallOrder::close(const Graph* first) {
  bool alone = component_.back() == first;
  size_t from = graphs.size();
  for (Graph* graph = nullptr; graph != first;) {
    graph = component_.back();
    component_.pop_back();
    marks_[graph].open = false;
    marks_[graph].component = num_components_;
    if (!alone) recursive_.insert(graph);
    graphs.push_back(graph);
  }
  ++num_components_;
  auto is_impure = [&](const Graph* graph) {
    return impure_.contains(graph) ||
           std::ranges::any_of(uses_[graph], [&](const Graph* used) { return impure_.contains(used); });
  };
  auto component = std::span(graphs).subspan(from);
  if (std::ranges::any_of(component, is_impure)) impure_.insert(component.begin(), component.end());
}

Callees known_callees(const Apply& call) {
  if (Graph* function = constant_function(call.input(0))) return {function};
  const Apply* choice = call.input(0)->as(Primitive::Switch);
  if (!choice) return {};
  Graph *f = constant_function(choice->input(1)), *g = constant_function(choice->input(2));
  if (!f || !g) return {};
  return f == g ? Callees{f} : Callees{f, g};
}

Callers callers_of(const Graph& graph) {
  Callers callers;
  callers.all_known = &graph != graph.module().main();
  auto add = [&](const Use& use) {
    bool is_call = use.user->primitive() == Primitive::Call && use.index() == 0;
    if (is_call) callers.calls.push_back(use.user);
    return is_call;
  };
  for (const Use& use : graph.value()->uses()) {
    if (add(use)) continue;
    const Apply* choice = use.user->as(Primitive::Switch);
    if (choice && use.index() == 2 && choice->input(1) == use.node) continue;  // its calls are there already
    bool is_known = choice && use.index() > 0;
    for (const Use& of_choice : use.user->uses()) is_known = is_known && add(of_choice);
    callers.all_known = callers.all_known && is_known;
  }
  return callers;
}

void retype(const Graph& graph) {
  const Type* old = graph.value()->type();
  if (!old || !old->is_func()) return;
  boost::container::small_vector<const Type*, 8> types;
  for (const Parameter* p : graph.parameters()) types.push_back(p->type());
  const Type* type = graph.module().context().func_type({types.data(), types.size()}, old->result());
  graph.value()->set_type(type);
  for (const Use& use : graph.value()->uses()) {
    if (use.user->primitive() == Primitive::Switch) use.user->set_type(type);
  }
}

}  // namespace anfora::analysis
