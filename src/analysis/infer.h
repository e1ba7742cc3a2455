// Type and shape inference: one abstract interpreter over the operator declarations, also through calls,
// recursion and Switch.
//
// Abstract values are types (with symbolic dimensions) and, for small integer tensors, their elements as symbolic
// expressions, so that shape arithmetic in a model (Shape → Gather → Mul → Concat → Reshape) is evaluated on
// the way. A dimension that inference cannot express gets a symbol of its own, named after the application
// (`_17_0`): unknown, but equal to itself.
//
// Functions: parameter types are the join of the arguments over all call sites, the result of a call is the join over
// the functions it may reach; where element types differ, it is any (the pass `signatures` makes a function of each). Which
// functions a value may be is followed through tuples, sequences and optionals, however nested. Recursive results start at bottom and rise to a fixpoint; a dimension on which two
// sites differ becomes unknown at once (widening), so that a round count of twice the lattice's height,
// about four times the depth of nesting, suffices. A round is linear in the size of the module.
//
// Bottom is Unreachable, the type of what no run computes, and whatever needs such a value has it, too. An application that its
// declaration refuses is Unreachable for that reason: a run that gets there ends by the same error, so that the rest may be
// typed as if none did. What every run computes, main's own applications and what its result depends on, is refused for all.
//
// A Switch whose condition is known is only the function that it takes; a function that nothing else reaches is Unreachable.
//
// A symbol made inside a function means another size at every invocation: it is erased to `?` where it leaves the
// function by its result, or re-enters it by recursion.
#pragma once

#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "anfora/error.h"
#include "ir/module.h"
#include "ops/inference.h"
#include "support/aligned_bytes.h"

namespace anfora::analysis {

class Inference {
 public:
  explicit Inference(ir::Module& module) : module_(module) {}

  // Types everything that main's result depends on. Throws TypeMismatch (with node and location) where every run would
  // compute what a declaration refuses.
  void run();

  // Types one new application whose operands are typed; operators only, no calls.
  void infer(ir::Apply& node);

  // What is known of the elements of an integer tensor of rank 0 or 1 (of a tuple: its output `output`).
  std::optional<ops::Dims> elements(const ir::Node* node, size_t output = 0) const;

  // Floating point operations of an application by its declaration; 0 when there is no estimate.
  double flops(const ir::Apply& node);

  // Functions that a node of Func type may be. Empty: not known, or never computed.
  std::vector<ir::Graph*> callees(const ir::Node* node) const { return functions_at(node, {}); }

  // The branch of a Switch whose condition is known before the run; null when it is not.
  ir::Node* taken_branch(const ir::Apply& choice) const;

  ir::Module& module() const { return module_; }

  // The types in a function, and in those nested in it, are found anew by the next run, from nothing: what a recursive function
  // passes to itself and returns would else stay what it was when it had other callers, too.
  void forget(ir::Graph& function);

 private:
  class Context;
  struct Frame {
    ir::Node* node;
    uint32_t next = 0;  // the operand to visit, then the callee
  };
  // Where in a structure a function is, from the outside in: which item of a tuple, 0 for all items of a sequence. An
  // optional is its element.
  using Path = boost::container::small_vector<uint32_t, 4>;
  enum class Mark : uint8_t { Unvisited, Active, Done };

  bool round();
  void visit(ir::Node* root);
  Mark& mark(const ir::Node* node);
  void finish(ir::Apply& node);
  void refuse(ir::Apply& node, Error& error);
  void throw_if_certain() const;
  void type_unreached_graphs();
  const ir::Type* unreached_operand(const ir::Apply& node) const;
  void finish_call(ir::Apply& call);
  static size_t num_function_operands(const ir::Apply& node);
  void bind_arguments(std::span<const ir::Use> arguments, ir::Graph& callee);
  std::vector<ir::Graph*> functions_at(const ir::Node* node, const Path& path) const;
  void add_functions(const ir::Node& node, const Path& path, const ir::Node& from, const Path& from_path);
  void take_functions(const ir::Node& node, const ir::Node& from);
  void take_functions_of_operands(const ir::Apply& node);
  template <class F>
  static void for_each_function(const ir::Type* type, Path& path, F&& f);
  template <class F>
  static void for_each_function(const ir::Type* type, F&& f);
  const ir::Type* result_of(ir::Graph& callee);
  void name_unknown_dims(const ir::Node& node, const ir::Type*& type, size_t& next_index);
  const ir::Type* erase_symbols_of(const ir::Type* type, const ir::Graph& graph);
  const ir::Type* join(const ir::Type* a, const ir::Type* b);
  ir::Dim fresh_dim(const ir::Node& node, size_t index);
  const ir::Type* some_function() const;
  const ir::Type* function_type(ir::Graph& graph);
  const ir::Type* function_type(ir::Graph& graph, const ir::Type* result);
  const ir::Type* common_type(std::span<ir::Graph* const> functions);
  template <class F>
  const ir::Type* with_functions(const ir::Type* type, Path& path, F&& f);
  template <class F>
  const ir::Type* with_functions(const ir::Type* type, F&& f);
  void type_functions();

  ir::Module& module_;
  LargeVector<Mark> marks_;  // by node id
  LargeVector<Frame> stack_;
  bool changed_ = false;
  boost::unordered_flat_map<uint64_t, ops::Dims> elements_;                       // by node id and output
  boost::unordered_flat_map<const ir::DimExpr*, const ir::Graph*> symbol_owner_;  // of fresh symbols
  boost::unordered_flat_map<const ir::Node*, const ir::Type*> joined_;            // of parameters, before naming
  // Functions in parameters, and in results of calls, functions and operators: by node id and place.
  boost::unordered_flat_map<std::pair<uint32_t, Path>, std::vector<ir::Graph*>> functions_;
  std::vector<std::pair<const ir::Apply*, Error>> refused_;  // in this round, in the order of visits
  const ir::Apply* unresolved_ = nullptr;  // in this round, a call of what is not known
  boost::unordered_flat_map<const ir::Graph*, const ir::Type*> result_read_;  // by callers in this round
};

// The type with all sizes unknown: what kernels are chosen by.
const ir::Type* without_sizes(ir::Context& context, const ir::Type* type);

// Inference(module).run().
void infer_types(ir::Module& module);

}  // namespace anfora::analysis
