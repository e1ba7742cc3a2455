// Which functions use which, and who calls whom.
#pragma once

#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstdint>
#include <vector>

#include "ir/order.h"

namespace anfora::analysis {

// Functions in the order callees first, with those that are recursive and those that do nothing but compute. Order and
// recursion are those of the strongly connected components of the graph "f uses g" (R. Tarjan, "Depth-first search and
// linear graph algorithms", 1972), which come out callees first.
class CallOrder {
 public:
  // The order holds dead nodes, too (ir::Coverage::All), or only what lives counts.
  explicit CallOrder(const ir::ModuleOrder& order);

  std::vector<ir::Graph*> graphs;
  bool is_recursive(const ir::Graph* graph) const { return recursive_.contains(graph); }
  // The number of its component; kNone for a graph that the order does not hold.
  static constexpr size_t kNone = SIZE_MAX;
  size_t component(const ir::Graph* graph) const {
    auto mark = marks_.find(graph);
    return mark == marks_.end() ? kNone : mark->second.component;
  }
  // Neither it nor what it uses has an effect or an operator that nothing is known of. A function that is a parameter may
  // do anything.
  bool is_pure(const ir::Graph* graph) const { return !impure_.contains(graph); }

 private:
  struct Mark {
    size_t index = 0, low = 0;
    bool open = false;
    size_t component = 0;
  };
  struct Frame {
    ir::Graph* graph;
    size_t next_use = 0;
  };

  void add_node(const ir::Graph& user, const ir::Apply& node);
  void open(ir::Graph* graph);
  void visit(ir::Graph* root);
  void close(const ir::Graph* first);

  boost::unordered_flat_map<const ir::Graph*, std::vector<ir::Graph*>> uses_;
  boost::unordered_flat_map<const ir::Graph*, Mark> marks_;
  boost::unordered_flat_set<const ir::Graph*> recursive_, impure_;
  std::vector<Frame> stack_;
  std::vector<ir::Graph*> component_;
  size_t next_index_ = 0, num_components_ = 0;
};

using Callees = boost::container::small_vector<ir::Graph*, 2>;

// The functions that a call may reach, when its callee is a function or a Switch between two; else none.
Callees known_callees(const ir::Apply& call);

// All calls of a function: directly, and by way of a Switch that is only called.
struct Callers {
  std::vector<ir::Apply*> calls;
  bool all_known = true;  // false: it is main, or passed on, kept, returned: others may call it, too
};
Callers callers_of(const ir::Graph& graph);

// Gives a function, and the choices that may be it, the type that its parameters have by now.
void retype(const ir::Graph& graph);

}  // namespace anfora::analysis
