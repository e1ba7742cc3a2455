#include "passes/origins.h"

#include <boost/unordered/unordered_flat_map.hpp>
#include <string_view>
#include <vector>


namespace anfora::passes {

using namespace ir;

namespace {


FunctionOrigins origins_of_functions(const Module& module) {
  // Of each function: where it comes from, and those that it calls. What is nested in it belongs to it.
  struct Function {
    std::string_view place;
    std::vector<const Graph*> callees;
  };
  boost::unordered_flat_map<const Graph*, Function> functions;
  for (const Graph* graph : module.graphs()) {
    const Graph* top = graph;
    while (top->parent()) top = top->parent();
    if (top == module.main()) continue;
    Function& function = functions[top];
    for (const Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
      if (function.place.empty() && graph == top) function.place = place_of(*node);
      for (const Use& use : node->operands()) {
        const Graph* used = constant_function(use.node);
        if (used && !used->parent()) function.callees.push_back(used);
      }
    }
  }
  FunctionOrigins origins;
  for (const Graph* graph : module.graphs()) {
    auto found = functions.find(graph);
    if (found == functions.end() || found->second.place.empty()) continue;
    FunctionOrigin& origin = origins[std::string(found->second.place)];
    if (origin.name.empty()) origin.name = graph->name();
    boost::unordered_flat_set<const Graph*> reached{graph};
    for (std::vector<const Graph*> pending{graph}; !pending.empty();) {
      const Function& function = functions[pending.back()];
      pending.pop_back();
      if (!function.place.empty()) origin.places.emplace(function.place);
      for (const Graph* callee : function.callees) {
        if (reached.insert(callee).second) pending.push_back(callee);
      }
    }
  }
  return origins;
}

}  // namespace

std::string_view place_of(const Node& node) {
  const Location* l = node.location();
  return l && l->line == 0 ? l->file : std::string_view();
}

Origins origins_of(const Module& module) {
  Origins origins{.first_id = module.next_id(), .functions = origins_of_functions(module)};
  for (const Graph* graph : module.graphs()) {
    for (const Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
      if (node->is("Einsum") && node->location()) origins.einsums.insert(node->location()->before_inlining());
    }
  }
  return origins;
}

}  // namespace anfora::passes
