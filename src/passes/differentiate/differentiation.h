// Reverse-mode differentiation as a whole; differentiate.cc says how it works. By subject:
//
//     differentiate.cc   the pass: main, and what becomes of its results
//     operators.cc       sensitivities, what varies, and the walk over a body
//     calls.cc           functions: forward and backward, with the residuals between them
//     programs.cc        what a program says of derivatives: Gradient, CustomGradient
//     residuals.cc       which values those are
//     loops.cc           loops
//     checkpoints.cc     loops that keep few of their states
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "analysis/calls.h"
#include "ir/library.h"
#include "passes/differentiate/builder.h"
#include "passes/differentiate/leaves.h"
#include "passes/differentiate/loop_form.h"
#include "passes/pass.h"
#include "rewrite/instantiate.h"
#include "rewrite/rule.h"

namespace anfora::passes::reverse {

using Mask = std::vector<bool>;

// A leaf of an argument or of a result.
struct Leaf {
  size_t value, leaf;
  bool operator==(const Leaf&) const = default;
};

// A function while it is differentiated: where its nodes are, and where the sensitivities are computed.
struct Body {
  ir::Graph *forward, *backward;
  boost::unordered_flat_set<const ir::Node*> varied = {};                               // depend on what is differentiated by
  boost::unordered_flat_map<const ir::Node*, std::vector<ir::Node*>> sensitivities = {};  // by leaf; null: none, or zero
  // Applications whose gradient updates the sensitivity of this operand, once all else that adds to it has.
  boost::unordered_flat_map<const ir::Node*, std::vector<ir::Apply*>> updates = {};
};

// Functions that a call chooses between, made for the arguments and the leaves of the result that matter.
struct Pair {
  std::vector<ir::Graph*> forward, backward;  // by callee; closures: the backward ones are results of the forward ones
  bool is_closure = false;
  std::vector<const ir::Type*> residuals = {};
  Mask reads = {};                            // which arguments the backward functions take part in
  std::vector<Leaf> results = {};             // what they return: sensitivities of these
  // Closures, whose signature no later pass changes, return a single sensitivity without a tuple.
  bool is_single() const { return is_closure && results.size() == 1; }
};

class Differentiation : rewrite::Sensitivities {
 public:
  // `checkpoints`: see PassOptions::Gradient.
  Differentiation(PassContext& context, int64_t checkpoints);
  // Main gets, behind its results, the gradients.
  void run(size_t of);
  // A Gradient becomes what computes it.
  void replace(ir::Apply& gradient);

 private:
  // The results of a graph, which is differentiated in place, and the gradients of one of them by these parameters.
  std::vector<ir::Node*> with_gradients(ir::Graph& graph, size_t of, std::span<const size_t> by);

  // Sensitivities.
  void add(Body& body, ir::Node* node, size_t leaf, ir::Node* sensitivity);
  ir::Node* sum(ir::Graph* graph, ir::Node* a, ir::Node* b);
  ir::Node* zero(ir::Graph* graph, ir::Node* node);
  ir::Node* item_by_item(ir::Graph* graph, std::string_view function, std::span<ir::Node* const> sequences, ir::Graph* of_items);
  ir::Node* sum_of(ir::Node* a, ir::Node* b) override { return sum(rewriter_.root().graph(), a, b); }
  ir::Node* zeros_of(ir::Node* node) override { return zero(rewriter_.root().graph(), node); }
  ir::Node* sensitivity(const Body& body, const ir::Node* node, size_t leaf) const;
  ir::Node* sensitivity_or_zero(Body& body, ir::Node* node, size_t leaf);

  // What depends on what is differentiated by.
  bool has_derivative(const ir::Apply& node, size_t operand) const;
  bool depends(const Body& body, const ir::Apply& node) const;
  void prepare(Body& body);
  bool simplify(ir::Apply& node);
  ir::Node* meaning_of(ir::Apply& node, const ir::Graph& function);

  // The walk.
  void walk(Body& body);
  void visit(Body& body, ir::Apply& node);
  void settle(Body& body, ir::Node* node);
  void visit_operation(Body& body, ir::Apply& node);
  void apply_gradient(Body& body, ir::Apply& node, const ir::Graph& function, ir::Node* so_far);
  ir::Apply* with_all_results(Body& body, ir::Apply& node);
  void add_results(Body& body, ir::Apply& node, std::span<ir::Node* const> leaves, std::vector<ir::Node*>& arguments);

  // Calls.
  struct Forward {
    ir::Node *result, *closure;
    std::vector<ir::Node*> residuals;
  };
  void visit_call(Body& body, ir::Apply& node, std::span<ir::Node* const> leaves);
  Forward call_forward(const ir::Apply& node, const Pair& pair);
  // The tuple of sensitivities of arguments that the pair returns, for those of the results that matter.
  ir::Node* call_backward(ir::Graph* graph, const ir::Apply& node, const Pair& pair, const Forward& forward,
                          std::span<ir::Node* const> sensitivities);
  void visit_custom_gradient(Body& body, ir::Apply& node, std::span<ir::Node* const> leaves);
  ir::Node* chosen(ir::Graph* graph, const ir::Apply& node, std::span<ir::Graph* const> functions);
  const ir::Type* type_of_results(const Pair& pair, const ir::Apply& node);

  // Functions.
  const Pair& pair_of(std::vector<ir::Graph*> callees, const Mask& active, const Mask& matters, bool is_complete);
  void make_pair(Pair& pair, std::span<ir::Graph* const> callees, const Mask& active, const Mask& matters, bool is_complete);
  Body differentiated(const ir::Graph& function, ir::Graph* forward, const Mask& active, const Mask& matters);
  // `is_free`: parameters that the backward function gets anyway.
  void choose_residuals(const Body& body, const Mask& is_free, bool is_loop);
  void lift_backward(Pair& pair, std::span<Body> bodies);

  // Loops.
  struct Header {
    ir::Node* test;
    std::vector<ir::Node*> handed_on;
  };
  Header copy_header(const LoopForm& loop, ir::Graph* into);
  ir::Graph* header_and(const LoopForm& loop, ir::Graph* branch, std::string_view name);
  Mask varying(ir::Graph* step, Mask active);
  void visit_loop(Body& body, ir::Apply& node, const LoopForm& loop, std::span<ir::Node* const> sensitivities);
  ir::Node* size_at_entry(const ir::Apply& entry, ir::Dim dim);
  ir::Node* room_for_items(const ir::Apply& entry, ir::Node* count, const ir::Type* item);
  ir::Graph* make_forward_loop(const LoopForm& loop, const Pair& pair, const Mask& is_pushed, std::span<const ir::Type* const> items);
  ir::Graph* make_backward_loop(const ir::Graph& step, const Pair& pair, const Mask& is_pushed, std::span<const int64_t> increments,
                                std::span<const ir::Type* const> items,
                                std::span<const Leaf> leaves);

  // Loops with few snapshots.
  ir::Node* trip_count(const LoopForm& loop, const ir::Graph& step, const ir::Apply& entry);
  ir::Node* call_of_library(ir::Graph* graph, std::string_view function, std::span<ir::Node* const> arguments);
  ir::Node* steps_ahead(ir::Graph* graph, ir::Node* length, ir::Node* num_snapshots);
  // Of a loop that takes snapshots, at an iteration.
  struct Iteration {
    std::span<ir::Node* const> plan, sequences;
    std::span<ir::Node* const> snapshot;  // what goes onto the sequences: the position, and what of the state changes
    ir::Node* position() const { return snapshot[0]; }
  };
  std::vector<ir::Node*> first_plan(ir::Graph* graph, ir::Node* trip_count);
  ir::Apply* take_planned(ir::Graph* graph, const Iteration& at);
  ir::Apply* take_always(ir::Graph* graph, const Iteration& at);
  ir::Graph* make_snapshot_loop(const LoopForm& loop, ir::Graph* step, const Mask& changes, std::span<const ir::Type* const> plan,
                                bool is_count_known);
  ir::Graph* make_replay_loop(ir::Graph* step);
  ir::Graph* make_restart_loop(ir::Graph* step, const Pair& pair, const Mask& changes, std::span<const ir::Type* const> sequences,
                               std::span<const Leaf> leaves);

  PassContext& context_;
  const int64_t checkpoints_;
  ir::Module& module_;
  Builder build_;
  rewrite::Rewriter rewriter_;
  const ir::Library library_;
  const analysis::CallOrder calls_;
  std::map<std::tuple<std::vector<ir::Graph*>, Mask, Mask, bool>, Pair> pairs_;
};

// The arguments' leaves of floats, of those that are active.
std::vector<Leaf> leaves_of(const ir::Graph& function, const Mask& active);

// Refuses arguments that hold floats and have no sensitivity, of a call that is differentiated by them.
void require_sensitivities(const ir::Apply& call, const Mask& active);

[[noreturn]] void refuse_gradient(const ir::Apply& node, std::string why, std::string hint = {});

}  // namespace anfora::passes::reverse
