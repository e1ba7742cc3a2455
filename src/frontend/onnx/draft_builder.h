// From the IR to a draft: draft_builder.cc (nodes, calls, If, local functions), draft_loop.cc (Loop, Scan).
//
// A graph's result is demanded, and thereby everything that it depends on, operands before users. Each node goes to
// the draft graph where its own graph is being written at the moment, its place. Calling a function means giving its
// graph a place and its parameters bindings, and demanding its result:
//
//     call of …                           its place
//     a closure                           that of the caller: the body is inlined
//     Switch(c, f, g)                     then_branch and else_branch of an If, in which f and g are called
//     a tail-recursive graph              before, in and after a Loop, see draft_loop.cc
//     a graph at the top level            a local function of its own
//
// A graph can be written several times, each time with bindings of its own; only one of them is open at any time,
// because recursion that is not a tail call is refused.
#pragma once

#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <memory>
#include <span>
#include <vector>

#include "analysis/calls.h"
#include "frontend/onnx/draft.h"
#include "ir/module.h"
#include "ir/order.h"

namespace anfora::onnx {

// Calls nest at most this deep. Each level takes a few hundred bytes of the stack, some thousand under the sanitizers.
inline constexpr int kDeepestCall = 1000;
// Functions that are inlined at each of their calls could make exponentially many nodes; the model may have this many
// times the module's, and so many more. Calls count as nodes here, for bodies may be empty.
inline constexpr size_t kMostGrowth = 64, kMostAddedNodes = size_t{1} << 18;
// The domain of the local functions that did not come from one.
inline constexpr std::string_view kFunctionDomain = "anfora.functions";

class DraftBuilder {
 public:
  // `opset`: of the main domain, that is aimed at. A loop has not the same forms in all.
  DraftBuilder(const ir::Module& module, int64_t opset);
  std::unique_ptr<Draft> build();

 private:
  // What stands for a node of the IR in the draft.
  struct Binding {
    enum class Kind : uint32_t { Unset, Value, Tuple, Function };
    Kind kind = Kind::Unset;
    uint32_t index = 0;  // the ValueId; into tuples_; into functions_
  };
  using Bindings = std::vector<Binding>;
  using Nodes = std::vector<const ir::Node*>;
  using ValueIds = boost::container::small_vector<ValueId, 8>;

  struct GraphState {
    DraftGraph* place = nullptr;
    bool is_bound = false;      // its nodes have, or had, bindings
    DraftGraph* function = nullptr;
    Binding function_result;
    const ir::GraphOrder* order = nullptr;
  };

  // Gives a graph a place and unbinds its nodes; the end of the scope takes the place away.
  class Activation {
   public:
    Activation(DraftBuilder& builder, const ir::Graph* graph, DraftGraph& place);
    ~Activation() { state_.place = previous_; }
    Activation(const Activation&) = delete;

   private:
    GraphState& state_;
    DraftGraph* previous_;
  };

  // One level of calls.
  class CallLevel {
   public:
    CallLevel(DraftBuilder& builder, const ir::Graph* graph);
    ~CallLevel() { --depth_; }
    CallLevel(const CallLevel&) = delete;

   private:
    int& depth_;
  };

  struct LoopPlan;

  // draft_builder.cc
  GraphState& state(const ir::Graph* graph);
  Binding& bound(const ir::Node* node) { return bindings_[node->id()]; }
  bool is_live(const ir::Apply* node) const { return order_.contains(*node); }

  Binding demand(const ir::Node* node);
  ValueId demand_value(const ir::Node* node);  // throws Unsupported when it is no single value
  Bindings demand_all(std::span<const ir::Node* const> nodes);
  Binding bind_leaf(const ir::Node* node);
  void emit(const ir::Apply* apply);
  Binding emit_operation(const ir::Apply* apply, DraftGraph& place);
  ValueIds take_captures(const ir::Apply* apply, DraftGraph& place, ValueIds& inputs);
  Binding emit_stack_sequence(const ir::Apply* apply, DraftGraph& place);
  Binding emit_sequence_replace(const ir::Apply* apply, DraftGraph& place);
  void name_items(const ir::Apply* apply, Binding result);

  // The graph that `body` becomes, under the name that the source gave it.
  DraftGraph* make_subgraph(const ir::Graph* body, std::string_view otherwise, DraftGraph& place);
  const ir::Node* resolve_function(const ir::Node* node);
  Binding call(DraftGraph& place, const ir::Node* callee, const Bindings& arguments, const ir::Apply* origin);
  Binding inline_graph(DraftGraph& place, const ir::Graph* graph, const Bindings& arguments);
  Binding emit_if(DraftGraph& place, const ir::Apply* choice, const Bindings& arguments, const ir::Apply* origin);
  Binding call_top_level(DraftGraph& place, const ir::Graph* graph, const Bindings& arguments, const ir::Apply* origin);
  void bind_parameters(const ir::Graph* graph, const Bindings& arguments);

  Binding value_binding(ValueId id) const { return {Binding::Kind::Value, id}; }
  Binding make_tuple(Bindings items);
  // Single values of a binding, left to right; functions throw Unsupported and name `graph`.
  void flatten(Binding binding, std::vector<ValueId>& values, const ir::Graph* graph) const;
  // A binding of the same structure over other values, taken from `next` on.
  Binding rebuild(Binding like, const ValueId*& next);
  // New values for the results of a node that has `like` for results.
  std::vector<ValueId> make_results(DraftGraph& place, std::span<const ValueId> like);
  // Makes each a value that `graph` itself computes or a constant, and that is not among its results yet, by Identity
  // nodes. An input of the model is left to be an output under its own name, and so are inputs of a Loop's body, but for its
  // counter, to be among the `num_carried` first: what it carries. What is stacked has a node, run times expect one.
  void set_results(DraftGraph& graph, std::span<const ValueId> results, std::span<const std::string> names = {},
                   size_t num_carried = 0);
  ValueId constant_result(DraftGraph& graph, ValueId value, bool is_taken);
  ValueId identity(DraftGraph& place, ValueId value);
  void count_node();
  DraftNode& add_node(DraftGraph& place, DraftOperator* op, std::span<const ValueId> inputs,
                      std::span<const ValueId> outputs, const ir::Apply* origin);
  DraftNode& add_node(DraftGraph& place, std::string_view op_type, std::span<const ValueId> inputs,
                      std::span<const ValueId> outputs, const ir::Apply* origin) {
    return add_node(place, draft_->find_operator("", op_type), inputs, outputs, origin);
  }
  DraftNode& add_control(DraftGraph& place, std::string_view op_type, std::span<const ValueId> inputs,
                         std::span<const ValueId> outputs, std::span<const Subgraph> subgraphs,
                         const ir::Apply* origin);
  void build_main();
  [[noreturn]] void refuse(const ir::Graph* graph, std::string_view why) const;

  // draft_loop.cc
  Binding emit_loop(DraftGraph& place, const ir::Graph* header, const Bindings& arguments, const ir::Apply* origin);
  LoopPlan plan_loop(const ir::Graph* header, const Bindings& arguments);
  void find_roles(LoopPlan& plan);
  void find_trip_count(LoopPlan& plan);
  void find_accumulators(LoopPlan& plan);
  void find_shared(LoopPlan& plan);
  bool find_scan(LoopPlan& plan);
  struct Reached;
  void collect(const LoopPlan& plan, const ir::Node* root, Reached& reached, const Reached* border = nullptr);
  void bind_iteration(const LoopPlan& plan, const std::vector<Binding>& values);
  ValueId emit_condition(const LoopPlan& plan, DraftGraph& place, ValueId otherwise);
  // Types of the body's results that are stacked, as the StackSequence says them: a reader takes the shape of the result of no
  // iterations from there.
  void declare_items(const LoopPlan& plan, std::span<const ValueId> items);
  Bindings emit_tail_call(DraftGraph& place, const ir::Node* callee, const Nodes& arguments, const LoopPlan& plan);
  Binding emit_exit(DraftGraph& place, const LoopPlan& plan, const Bindings& finals, const ir::Apply* origin);

  const ir::Module& module_;
  const int64_t opset_;
  std::unique_ptr<Draft> draft_;
  DraftGraph* top_ = nullptr;                                       // main or the local function that is being written
  boost::unordered_flat_map<const ir::Value*, ValueId> constants_;  // of top_
  ir::ModuleOrder order_;
  analysis::CallOrder calls_;
  boost::unordered_flat_map<const ir::Graph*, GraphState> states_;
  boost::unordered_flat_map<const ir::Operator*, DraftOperator*> operators_;
  LargeVector<Binding> bindings_;  // by node id
  std::vector<Bindings> tuples_;
  std::vector<const ir::Node*> functions_;
  boost::unordered_flat_map<const ir::Node*, ValueId> replaced_;  // nodes that a Loop or Scan computes by itself
  boost::unordered_flat_set<size_t> open_loops_;                  // components whose Loop is being written
  LargeVector<const ir::Apply*> pending_;                         // of demand(), a stack
  int call_depth_ = 0;
  size_t num_live_nodes_ = 0, num_draft_nodes_ = 0;
};

}  // namespace anfora::onnx
