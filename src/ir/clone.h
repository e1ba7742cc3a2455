// The cloner: the one way to copy graphs. What differs between its uses is what a node is replaced by on the way:
//
//     inline       splice(f, into)   parameters are bound to the arguments
//     specialize   copy(f, parent)   some parameters are bound, to constants or to nodes visible in `parent`
//     duplicate    copy(f, parent)   nothing is bound
//     lift         copy(f, nullptr)  free variables are bound to parameters that are added
//     whole module                   everything is copied to another module
//
//     graph @f(%a, %b) { return Add(Relu(%a), %b) }        bind(%b, 1.0); copy → graph @f.1(%a) { return Add(Relu(%a), 1.0) }
//
// The region that is copied is a graph and the graphs nested in it, as far as its result depends on them. Constants, other
// functions and free variables are shared. Names, locations and types are kept. Copying is linear in the size of the
// region and does not recurse; the module is valid.
//
// A recursive function that refers to itself: a full copy refers to the copy. Where parameters are bound, the copy has
// another signature, and the reference stays with the original: only the first round is specialized.
#pragma once

#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ir/module.h"

namespace anfora::ir {

// Makes one copy.
class Cloner {
 public:
  // `inlined_at`: the location of the call whose place the copy takes; null when it takes none.
  explicit Cloner(Module& module, const Location* inlined_at = nullptr) : module_(module), inlined_at_(inlined_at) {}

  // `image` stands for `node` in the copy: a parameter, a free variable, or a function.
  void bind(const Node* node, Node* image) { images_[node] = image; }

  // A copy of a graph, nested in `parent` (null: top level), with the parameters that are not bound. An empty name: the
  // name of the original with a suffix.
  Graph* copy(const Graph& graph, Graph* parent, std::string_view name = {});
  // Copies the body into another graph; all parameters are bound. Returns what stands for its result there.
  Node* splice(const Graph& graph, Graph* into);

  // What stands for a node in the copy; outside of the region, the node itself.
  Node* image_of(Node* node) const;

 private:
  void copy_parameters(const Graph& graph, Graph* copy);
  void copy_nodes(const Graph& graph, Graph* copy);
  void copy_node(const Apply& node);

  Module& module_;
  const Location* inlined_at_;
  boost::unordered_flat_map<const Node*, Node*> images_;
  boost::unordered_flat_map<const Graph*, Graph*> graphs_;  // of the region, to those that hold the copies
};

// The body of a graph in the place of a call of it: the call's users now use the result, and the call is erased.
// The graph must be visible where the call is. Returns what took the call's place.
Node* inline_call(Module& module, Apply* call, const Graph& callee);

// A copy of `graph` with parameter i bound to `values[i]` (null: it stays a parameter), nested where the graph is.
Graph* specialize(Module& module, const Graph& graph, std::span<Node* const> values);

// A copy without free variables, at the top level: each becomes a parameter behind those that there were.
//
//     graph @pos(%x) in @main { return Mul(%x, %w) }      →      graph @pos.1(%x, %w) { return Mul(%x, %w) }
//
// Where the graph refers to itself, it does so by a function nested in the copy that passes the captured values on. Throws
// Unsupported when it uses functions that are neither nested in it nor at the top level: those are to be lifted first.
struct Lifted {
  Graph* graph;
  std::vector<Node*> captured;  // the free variables, in the order of the added parameters
};
Lifted lift(Module& module, const Graph& graph);

// The function as one of another module of the same context, with those that it uses; it is at the top level.
Graph* import(Module& into, const Graph& function);

// The operands of an application; those that `image` gives for them.
using Operands = boost::container::small_vector<Node*, 8>;
Operands operands_of(const Apply& node);
template <class F>
Operands operands_of(const Apply& node, F&& image) {
  Operands operands;
  for (const Use& use : node.operands()) operands.push_back(image(use.node));
  return operands;
}
// The same application of these operands, in a graph. It has the type, the location and the name of the original.
Apply* copy_of(Module& module, const Apply& node, Graph* graph, std::span<Node* const> operands);
// The same in the place of the original.
Apply* with_operands(Module& module, Apply& node, std::span<Node* const> operands);

// A copy of everything, what is dead included, that shares only the context and the bytes of the constants.
std::unique_ptr<Module> clone(const Module& module);

// The same with the ids of the original.
std::unique_ptr<Module> snapshot(const Module& module);

}  // namespace anfora::ir
