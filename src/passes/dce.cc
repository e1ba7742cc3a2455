// Dead code: whatever main's result does not depend on. Liveness is reachability from main's return node over
// operands and, at a function value, over the function's return node. One traversal, linear.
#include <fmt/format.h>

#include <boost/unordered/unordered_flat_set.hpp>
#include <vector>

#include "passes/pass.h"

namespace anfora::passes {
namespace {

using namespace ir;

constexpr std::string_view kFunction = "dead-function";

size_t run(PassContext& context) {
  Module& module = context.module;
  std::vector<bool> live(module.next_id());
  boost::unordered_flat_set<const Graph*> live_graphs{module.main()};
  std::vector<Node*> pending{module.main()->return_node()};
  auto reach = [&](Node* node) {
    if (live[node->id()]) return;
    live[node->id()] = true;
    pending.push_back(node);
  };
  while (!pending.empty()) {
    Node* node = pending.back();
    pending.pop_back();
    live[node->id()] = true;
    if (Graph* graph = constant_function(node)) {
      live_graphs.insert(graph);
      if (graph->return_node()) reach(graph->return_node());
    }
    if (Apply* apply = node->as_apply()) {
      for (const Use& use : apply->operands()) reach(use.node);
    }
  }

  std::vector<Apply*> dead;
  std::vector<Graph*> dead_graphs;
  size_t erased = 0;
  for (Graph* graph : module.graphs()) {
    if (!live_graphs.contains(graph)) {
      dead_graphs.push_back(graph);
      erased += graph->num_nodes();
      context.remarks.applied(kDropDead.name, kFunction, *graph->value(), fmt::format("@{} is never called", graph->name()));
      continue;
    }
    for (Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
      if (!live[node->id()]) dead.push_back(node);
    }
  }
  for (Apply* node : dead) context.remarks.applied(kDropDead.name, kDropDead.name, *node);
  erased += dead.size();
  module.erase_dead(dead, dead_graphs);
  return erased;
}

}  // namespace

const Pass kDropDead{"dce", "dead code", "what no output depends on", run};

}  // namespace anfora::passes
