// Common subexpressions: two pure applications of one operator with the same attributes and the same operands are one.
//
// Value numbering by hash: applications are visited operands first, so that operands are already merged when
// their user is looked up, and one pass finds everything. An application may take the place of another in its own graph or in a graph
// nested below it; graphs are therefore visited from the outside in, and a lookup walks up the parents (their number
// is the depth of nesting). Near-linear.
//
// Attribute sets and constants are interned, so that comparing them is comparing pointers. Random operators, effects and
// calls stay as they are.
#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>

#include "ir/order.h"
#include "passes/pass.h"
#include "support/hash.h"

namespace anfora::passes {
namespace {

using namespace ir;

bool may_merge(const Apply& node) {
  switch (node.primitive()) {
    case Primitive::Switch:
    case Primitive::MakeTuple:
    case Primitive::TupleGetItem: return true;
    case Primitive::Operation: return node.op().effect == Effect::Pure && node.op().known;
    default: return false;
  }
}

struct Expression {
  const Apply* node;
  const Graph* scope;

  friend bool operator==(const Expression& a, const Expression& b) {
    return a.scope == b.scope && &a.node->op() == &b.node->op() && &a.node->attributes() == &b.node->attributes() &&
           a.node->num_outputs() == b.node->num_outputs() &&
           std::ranges::equal(a.node->operands(), b.node->operands(), {}, &Use::node, &Use::node);
  }
  friend size_t hash_value(const Expression& e) {
    uint64_t h = hash_combine(hash_pointer(&e.node->op()), hash_pointer(&e.node->attributes()));
    h = hash_combine(h, hash_pointer(e.scope) + e.node->num_outputs());
    for (const Use& use : e.node->operands()) h = hash_combine(h, use.node->id());
    return h;
  }
};

size_t run(PassContext& context) {
  Module& module = context.module;
  ModuleOrder order = topological_order(module);
  std::ranges::stable_sort(order.graphs, {}, [](const GraphOrder& g) { return g.graph->depth(); });
  boost::unordered_flat_map<Expression, Apply*> known;
  size_t merged = 0;
  for (const auto& [graph, nodes, dead] : order.graphs) {
    for (Apply* node : nodes) {
      if (!may_merge(*node)) continue;
      Apply* same = nullptr;
      for (Graph* scope = graph; scope && !same; scope = scope->parent()) {
        auto found = known.find(Expression{node, scope});
        if (found != known.end()) same = found->second;
      }
      if (!same) {
        known.emplace(Expression{node, graph}, node);
        continue;
      }
      context.remarks.applied(kMerge.name, kMerge.name, *node);
      module.replace(node, same);
      module.erase(node);
      ++merged;
    }
  }
  return merged;
}

}  // namespace

const Pass kMerge{"cse", "common subexpressions", "equal computations are one", run};

}  // namespace anfora::passes
