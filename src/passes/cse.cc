// Common subexpressions: two pure applications of one operator with the same attributes and the same operands are one.
//
// Value numbering by hash: applications are visited operands first, so that operands are already merged when their user
// is looked up, and one pass finds everything. An application may take the place of another in its own graph or in a
// graph nested below it; graphs are therefore visited from the outside in, and a lookup walks up the parents (their
// number is the depth of nesting). Near-linear.
//
// Random operators, effects and calls stay as they are.
#include <algorithm>
#include <vector>

#include "ir/order.h"
#include "passes/expression.h"
#include "passes/pass.h"
#include "support/hash_index.h"

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

// The expressions met so far, each with the graph that it was met in.
class Expressions {
 public:
  explicit Expressions(size_t most) {
    known_.reserve(most);
    index_.reserve(most);
  }

  // An application that may stand for `node`, which has that hash: of its own graph, else of one around. Where there is
  // none, the node is entered itself.
  Apply* find_or_enter(Apply* node, uint64_t hash) {
    Graph* graph = node->graph();
    auto [at, is_new] =
        index_.insert(scoped(hash, graph), known_.size(), [&](uint32_t i) { return is(i, *node, graph); });
    if (!is_new) return known_[at].node;
    known_.push_back({node, graph});
    for (Graph* outer = graph->parent(); outer; outer = outer->parent()) {
      uint32_t found = index_.find(scoped(hash, outer), [&](uint32_t i) { return is(i, *node, outer); });
      if (found != HashIndex::kNone) return known_[at].node = known_[found].node;
    }
    return nullptr;
  }
  void prefetch(const Apply& node) const { index_.prefetch(scoped(hash_of_expression(node), node.graph())); }

 private:
  static uint64_t scoped(uint64_t hash, const Graph* graph) { return hash_combine(hash, graph->value()->id()); }
  bool is(uint32_t i, const Apply& node, const Graph* scope) const {
    return known_[i].scope == scope && are_same_expression(*known_[i].node, node);
  }

  struct Known {
    Apply* node;  // of `scope` or a graph around it
    const Graph* scope;
  };
  std::vector<Known> known_;
  HashIndex index_;
};

size_t run(PassContext& context) {
  Module& module = context.module;
  ModuleOrder order = topological_order(module);
  std::ranges::stable_sort(order.graphs, {}, [](const GraphOrder& g) { return g.graph->depth(); });
  size_t total = 0, merged = 0;
  for (const GraphOrder& graph : order.graphs) total += graph.nodes.size();
  Expressions expressions(total);
  for (const auto& [graph, nodes, dead] : order.graphs) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      // Merging an operand in between changes the hash; then the line is missed, and nothing else.
      constexpr size_t kAhead = 4;
      if (i + kAhead < nodes.size()) expressions.prefetch(*nodes[i + kAhead]);
      Apply* node = nodes[i];
      if (!may_merge(*node)) continue;
      Apply* same = expressions.find_or_enter(node, hash_of_expression(*node));
      if (!same) continue;
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
