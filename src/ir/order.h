// The one order in which graphs are read: for printing, scheduling and every pass that walks a graph.
//
// Nodes of a graph have no order but their dependencies. The order here is the postorder of a depth-first walk
// from the return node, operands from left to right. Where an operand is a constant function, the walk goes on
// in that function's body before it returns to the user, because the closure needs the body's free variables:
//
//     graph @main(%x) {                     walk: return → %3 → %f → %2 → %x
//       %1 = Tanh(%x)                                           → @pos: return → Relu(%1) → %1
//       %2 = Greater(%x, 0.0)                                   → @neg: …
//       %f = Switch(%2, @pos, @neg)         order of @main: %2, %1, %f, %3, return
//       %3 = call %f()                      order of the graphs: @main, @pos, @neg
//       return %3
//     }
//     graph @pos() in @main { return Relu(%1) }
//
// One walk orders all graphs; each node and operand is seen once. The result depends on the structure alone, not
// on the order of creation. Nothing here recurses, so the depth of a graph is bounded by memory only.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ir/module.h"
#include "support/aligned_bytes.h"

namespace anfora::ir {

struct GraphOrder {
  Graph* graph = nullptr;
  LargeVector<Apply*> nodes;  // operands before users; the return node, if there is one, last
  LargeVector<Apply*> dead;   // the other applications, in the same manner; only when asked for
};

struct ModuleOrder {
  std::vector<GraphOrder> graphs;  // in order of first use, main first
  bool contains(const Apply& node) const { return node.id() < marks.size() && marks[node.id()] != Mark::New; }
  // Operands that close a cycle, also one through a function's free variables. Empty in a valid module.
  struct BackEdge {
    Apply* user;
    size_t operand;
  };
  std::vector<BackEdge> back_edges;

  enum class Mark : uint8_t { New, Open, Done };
  LargeVector<Mark> marks;  // by node id: how far the walk has come
};

enum class Coverage {
  Live,  // what main's result depends on
  All,   // also dead nodes and the graphs that nothing reaches, those in order of creation
};

ModuleOrder topological_order(const Module& module, Coverage coverage = Coverage::Live);
// The order of what is live, kept by the module until a node, an operand or a graph changes: passes that find nothing to
// do share one walk. Who holds the order may change the module meanwhile.
std::shared_ptr<const ModuleOrder> shared_order(Module& module);
// The live nodes of one graph.
LargeVector<Apply*> topological_order(const Graph& graph);

// The free variables of every graph: parameters and applications of enclosing graphs that a call of it may read,
// because it uses them itself or uses, as a value, a function that does. Linear in the module's size plus the
// number of (variable, graph) pairs. Variables come in the order in which the walk over `order` meets them.
class FreeVariables {
 public:
  explicit FreeVariables(const ModuleOrder& order);
  // Empty for a graph that the order does not hold.
  std::span<Node* const> of(const Graph* graph) const;
  bool none() const { return variables_.empty(); }  // of no graph

 private:
  boost::unordered_flat_map<const Graph*, std::vector<Node*>> variables_;
};

}  // namespace anfora::ir
