// Loops: tail-recursive functions as import makes them from Loop and Scan,
//
//     graph @loop(%i, %v…) { return call Switch(test(%i, %v…), @body, @done)() }
//     graph @body() in @loop { return call @loop(next(%i, %v…)) }
//     graph @done() in @loop { return result(%v…) }
//
// or with the branches the other way round. What is done:
//
//   - loop-unrolled      how often the body runs is known, and the iterations in a row are not more than the loop is. The
//                        count is found by running what the test depends on: parameters that start as constants and
//                        whose next values are computed from such parameters alone (a number of iterations and a limit, but
//                        also a value that is doubled until it is large). A test that is false at once leaves the values
//                        that the loop starts from, whatever the size.
//   - stacked-items      a sequence that grew by one item an iteration is then a Concat of the items.
//   - loop-invariant     what an iteration computes from values outside of the loop is computed once, before it.
//
// By cost: an iteration is counted without what its known parameters let fold (indices, counters), the loop as Loop or Scan
// have it (which count, and slice what they go through, by themselves). Unrolled, it may have kMostGrowth operators more,
// as much as a runtime needs to start the iterations; beyond, the model would grow.
//
// What is invariant is hoisted from the test, which runs at least once, and from the body, where it runs in each iteration
// (not from a branch in the body). The body may run not at all: unless the first test is known to hold, only what cannot
// fail on any data is hoisted, and the time that a loop without iterations then loses is accepted for what all others gain.
// A value that is cheaper to compute than to keep (an Expand) stays, since it would be kept for the whole loop. Inner loops
// first, so that a value leaves all loops that it does not depend on, one a round. Linear, but for the iterations that
// are run.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <optional>
#include <vector>

#include "analysis/calls.h"
#include "analysis/cost.h"
#include "analysis/evaluate.h"
#include "analysis/range.h"
#include "anfora/error.h"
#include "ir/clone.h"
#include "ir/order.h"
#include "ops/registry.h"
#include "passes/pass.h"
#include "rewrite/admission.h"

namespace anfora::passes {
namespace {

using namespace ir;

constexpr std::string_view kUnrolled = "loop-unrolled";
constexpr std::string_view kStacked = "stacked-items";
constexpr std::string_view kHoisted = "loop-invariant";

// Applications that an unrolled loop may have more than the loop.
constexpr size_t kMostGrowth = 2;
// Iterations that are run to find their number. A loop of more is no small one.
constexpr size_t kMostIterations = 64;
// Elements of a value that is followed from iteration to iteration.
constexpr int64_t kMostElements = 64;
// How deep below the test and the next values the computation is followed.
constexpr int kDeepestValue = 32;

struct Loop {
  Graph* header = nullptr;
  Apply* choice = nullptr;                      // the test's Switch
  size_t again_operand = 0, leave_operand = 0;  // of the Switch
  Graph* again = nullptr;
  Apply* back_edge = nullptr;   // the call of the header at the end of `again`
  std::vector<Apply*> entries;  // the calls from outside

  bool goes_on_when() const { return again_operand == 1; }
};

std::optional<Loop> as_loop(Graph& header, const analysis::CallOrder& order) {
  if (!order.is_recursive(&header) || !header.return_node()) return std::nullopt;
  Apply* last = header.result()->as(Primitive::Call);
  if (!last || last->graph() != &header || last->num_inputs() != 1) return std::nullopt;
  Loop loop{.header = &header, .choice = last->input(0)->as(Primitive::Switch)};
  if (!loop.choice || loop.choice->graph() != &header || !loop.choice->has_one_use()) return std::nullopt;
  for (size_t i : {size_t{1}, size_t{2}}) {
    Graph* branch = constant_function(loop.choice->input(i));
    if (!branch || !branch->return_node()) return std::nullopt;
    Apply* call = branch->result()->as(Primitive::Call);
    if (!call || constant_function(call->input(0)) != &header) continue;
    if (loop.again || call->graph() != branch || branch->parent() != &header || !branch->value()->has_one_use()) {
      return std::nullopt;
    }
    loop.again = branch;
    loop.back_edge = call;
    loop.again_operand = i;
    loop.leave_operand = 3 - i;
  }
  if (!loop.again) return std::nullopt;
  analysis::Callers callers = analysis::callers_of(header);
  if (!callers.all_known) return std::nullopt;
  for (Apply* call : callers.calls) {
    if (call == loop.back_edge) continue;
    if (call->graph()->is_inside(&header) || constant_function(call->input(0)) != &header) return std::nullopt;
    loop.entries.push_back(call);
  }
  return loop.entries.empty() ? std::nullopt : std::optional(std::move(loop));
}

// What is known before the run of the values of one iteration, computed on demand.
class Iteration {
 public:
  explicit Iteration(const Graph& header) : header_(header) {}

  void bind(const Parameter* parameter, Tensor value) { values_[parameter] = std::move(value); }

  // Null: not known.
  const Tensor* value(const Node* node, int depth = kDeepestValue) {
    if (const Tensor* constant = constant_tensor(node)) return constant;
    const Apply* apply = node->as_apply();
    auto [at, is_new] = values_.try_emplace(node);
    if (!is_new || !apply || depth == 0 || !apply->graph()->is_inside(&header_))
      return at->second ? &*at->second : nullptr;
    std::optional<Tensor> result = compute(*apply, depth - 1);  // enters others: `at` is not valid any more
    std::optional<Tensor>& entry = values_[node];
    entry = std::move(result);
    return entry ? &*entry : nullptr;
  }

  // The value of a test.
  std::optional<bool> truth(const Node* test) {
    const Tensor* known = value(test);
    if (!known || known->dtype() != DType::Bool || known->size() != 1) return std::nullopt;
    return known->data<bool>()[0];
  }

 private:
  std::optional<Tensor> compute(const Apply& node, int depth) {
    if (node.primitive() != Primitive::Operation || node.num_outputs() != 1) return std::nullopt;
    if (node.op().effect != Effect::Pure || !ops::reference_kernel(node.op())) return std::nullopt;
    boost::container::small_vector<Datum, 4> inputs;
    bool is_complete = true;
    for (const Use& use : node.operands()) {
      const Value* constant = use.node->as_value();
      if (constant && constant->is_none()) {
        inputs.emplace_back();
      } else if (const Tensor* known = value(use.node, depth)) {
        // One operand may decide.
        bool is_scalar = known->dtype() == DType::Bool && known->size() == 1;
        if (is_scalar && node.is("And") && !known->data<bool>()[0]) return *known;
        inputs.emplace_back(*known);
      } else {
        is_complete = false;
      }
    }
    if (!is_complete) return std::nullopt;
    try {
      std::vector<Datum> results = analysis::evaluate_operator(node.op(), node.attributes(), inputs, 1);
      if (!results[0].is_tensor() || results[0].tensor().size() > kMostElements) return std::nullopt;
      return results[0].tensor();
    } catch (const Error&) {
      return std::nullopt;  // the run will tell if it is ever reached
    }
  }

  const Graph& header_;
  boost::unordered_flat_map<const Node*, std::optional<Tensor>> values_;
};

class Loops {
 public:
  explicit Loops(PassContext& context) : context_(context), module_(context.module) {}

  size_t run() {
    if (module_.graphs().size() == 1) return 0;
    ModuleOrder order = topological_order(module_);
    analysis::CallOrder calls(order);
    std::ranges::stable_sort(order.graphs, std::greater(), [](const GraphOrder& g) { return g.graph->depth(); });
    for (const GraphOrder& graph : order.graphs) nodes_of_.emplace(graph.graph, graph.nodes);
    for (const GraphOrder& graph : order.graphs) {
      if (holds_unrolled(*graph.graph)) continue;  // its nodes are others now: the next round sees them
      std::optional<Loop> loop = as_loop(*graph.graph, calls);
      if (!loop) continue;
      std::erase_if(loop->entries, [&](Apply* entry) { return unroll(*loop, *entry); });
      if (loop->entries.empty()) continue;
      hoist(*loop);
    }
    return changes_;
  }

 private:
  // Unrolling -------------------------------------------------------------------------------------------------------
  // Parameters whose value in each iteration is known before the run, if it is in the one before.
  using Known = boost::unordered_flat_set<const Parameter*>;

  Known known_parameters(const Loop& loop, const Apply& entry) const {
    Known known;
    for (const Parameter* p : loop.header->parameters()) {
      const Tensor* start = constant_tensor(entry.input(p->index() + 1));
      if (start && start->size() <= kMostElements) known.insert(p);
    }
    for (bool changed = true; changed;) {
      changed = false;
      boost::unordered_flat_map<const Node*, bool> seen;
      for (const Parameter* p : loop.header->parameters()) {
        if (!known.contains(p) ||
            is_computable(loop, known, seen, loop.back_edge->input(p->index() + 1), kDeepestValue))
          continue;
        known.erase(p);
        changed = true;
      }
    }
    return known;
  }

  static bool is_computable(const Loop& loop, const Known& known, boost::unordered_flat_map<const Node*, bool>& seen,
                            const Node* node, int depth) {
    if (const Value* value = node->as_value()) return !value->is_graph();
    if (const Parameter* parameter = node->as_parameter()) return known.contains(parameter);
    const Apply* apply = node->as_apply();
    if (depth == 0 || !apply->graph()->is_inside(loop.header)) return false;
    auto [at, is_new] = seen.try_emplace(node, false);
    if (!is_new) return at->second;
    bool result = apply->primitive() == Primitive::Operation && apply->num_outputs() == 1 &&
                  apply->op().effect == Effect::Pure && ops::reference_kernel(apply->op()) &&
                  std::ranges::all_of(apply->operands(), [&](const Use& use) {
                    return is_computable(loop, known, seen, use.node, depth - 1);
                  });
    return seen[node] = result;
  }

  // The number of iterations; none: not known, or more than kMostIterations.
  std::optional<size_t> count_iterations(const Loop& loop, const Apply& entry, const Known& known) const {
    boost::unordered_flat_map<const Parameter*, Tensor> values;
    for (const Parameter* p : loop.header->parameters()) {
      if (const Tensor* start = constant_tensor(entry.input(p->index() + 1))) values.emplace(p, *start);
    }
    for (size_t count = 0; count <= kMostIterations; ++count) {
      Iteration iteration(*loop.header);
      for (const auto& [parameter, value] : values) iteration.bind(parameter, value);
      std::optional<bool> test = iteration.truth(loop.choice->input(0));
      if (!test) return std::nullopt;
      if (*test != loop.goes_on_when()) return count;
      boost::unordered_flat_map<const Parameter*, Tensor> next;
      for (const Parameter* p : known) {
        if (const Tensor* value = iteration.value(loop.back_edge->input(p->index() + 1))) next.emplace(p, *value);
      }
      values = std::move(next);
    }
    return std::nullopt;
  }

  struct Size {
    size_t written = 0;   // operators of the loop but for its end
    size_t unrolled = 0;  // those that an iteration leaves
  };
  Size size_of(const Loop& loop, const Known& known) const {
    Size size{.written = 1};  // the loop itself
    boost::unordered_flat_map<const Node*, bool> seen;
    for (const auto& [graph, nodes] : nodes_of_) {
      if (!graph->is_inside(loop.header) || is_in_exit(loop, graph)) continue;
      for (const Apply* node : nodes) {
        if (node->is_erased() || node->primitive() != Primitive::Operation) continue;
        if (is_computable(loop, known, seen, node, kDeepestValue)) continue;
        ++size.unrolled;
        size.written += !is_done_by_loop(loop, known, seen, *node);
      }
    }
    return size;
  }
  // Reading item i of a tensor, and collecting results: a Scan or Loop does it without an operator of its own.
  static bool is_done_by_loop(const Loop& loop, const Known& known, boost::unordered_flat_map<const Node*, bool>& seen,
                              const Apply& node) {
    if (node.is("SequenceInsert")) return true;
    return node.is("Gather") && !node.input(1)->is_value() &&
           is_computable(loop, known, seen, node.input(1), kDeepestValue);
  }
  static bool is_in_exit(const Loop& loop, const Graph* graph) {
    const Graph* leave = constant_function(loop.choice->input(loop.leave_operand));
    return graph->is_inside(leave);
  }

  // What the loop stacks at its end is then to be a Concat.
  std::string why_not_stacked(const Loop& loop, size_t count) const {
    if (count < 2) return "";
    const Operator& concat = module_.context().get_operator("Concat");
    for (const auto& [graph, nodes] : nodes_of_) {
      if (!is_in_exit(loop, graph)) continue;
      for (const Apply* node : nodes) {
        bool stacks = !node->is_erased() && node->is("StackSequence") && node->type();
        std::string why = stacks ? rewrite::why_not_taken(concat, 0, node->type()->dtype()) : "";
        if (!why.empty()) return why;
      }
    }
    return "";
  }

  // Whether the call of the loop is gone.
  bool unroll(const Loop& loop, Apply& entry) {
    context_.remarks.tried(kUnrolled);
    Known known = known_parameters(loop, entry);
    std::optional<size_t> count = count_iterations(loop, entry, known);
    if (!count) return false;
    Size size = size_of(loop, known);
    if (*count * size.unrolled > size.written + kMostGrowth && *count > 1) {
      context_.remarks.refused(kLoops.name, kUnrolled, entry,
                               fmt::format("{} iterations of {} applications; at most {} in all pay", *count,
                                           size.unrolled, size.written + kMostGrowth));
      return false;
    }
    if (std::string why = why_not_stacked(loop, *count); !why.empty()) {
      context_.remarks.refused(kLoops.name, kUnrolled, entry, std::move(why));
      return false;
    }
    context_.remarks.applied(kLoops.name, kUnrolled, entry,
                             fmt::format("{} iterations of {} applications", *count, size.unrolled));
    Graph* into = entry.graph();
    changed_graphs_.push_back(into);
    size_t first_copy = module_.graphs().size();
    Apply* call = &entry;
    for (size_t i = 0; i <= *count; ++i) {
      Apply* enter = inline_call(module_, call, *loop.header)->as_apply();
      Apply* choice = enter->input(0)->as_apply();
      Graph* taken = constant_function(choice->input(i < *count ? loop.again_operand : loop.leave_operand));
      module_.set_operand(enter, 0, taken->value());
      if (!choice->has_uses()) module_.erase(choice);
      Node* result = inline_call(module_, enter, *taken);
      call = i < *count ? result->as_apply() : nullptr;
    }
    erase_unused_copies(first_copy);
    stack_items(*into);
    ++changes_;
    return true;
  }

  bool holds_unrolled(const Graph& graph) const {
    return std::ranges::any_of(changed_graphs_, [&](const Graph* changed) { return changed->is_inside(&graph); });
  }

  // The branches that each copy of the loop brought, and that were copied again where they are taken.
  void erase_unused_copies(size_t first_copy) {
    boost::unordered_flat_set<const Graph*> unused;
    std::vector<Graph*> dead;
    for (Graph* graph : module_.graphs().subspan(first_copy)) {  // outer ones first
      if (graph->value()->has_uses() && !unused.contains(graph->parent())) continue;
      unused.insert(graph);
      dead.push_back(graph);
    }
    module_.erase_dead({}, dead);
  }

  // StackSequence(SequenceInsert(SequenceInsert(SequenceEmpty(), a), b)) = Concat(Unsqueeze(a), Unsqueeze(b))
  void stack_items(Graph& graph) {
    std::vector<Apply*> stacks;
    for (Apply* node = graph.first_node(); node; node = node->next_in_graph()) {
      if (node->is("StackSequence")) stacks.push_back(node);
    }
    for (Apply* stack : stacks) {
      std::vector<Node*> items;
      const Apply* sequence = stack->input(0)->as_apply();
      for (; sequence && sequence->is("SequenceInsert") && !sequence->has_input(2);) {
        items.push_back(sequence->input(1));
        sequence = sequence->input(0)->as_apply();
      }
      if (items.empty() || !sequence || !sequence->is("SequenceEmpty")) continue;
      if (stack->attributes().get_int("reverse", 0) == 0) std::ranges::reverse(items);
      const int64_t axis = stack->attributes().get_int("axis", 0);
      Node* axes = module_.constant(Tensor::vector<int64_t>(std::array{axis}));
      auto add = [&](std::string_view op, std::span<Node* const> inputs, const AttributeSet& attributes) {
        return context_.apply(kLoops.name, kStacked, *stack, op, inputs, attributes);
      };
      for (Node*& item : items) item = item ? add("Unsqueeze", std::array{item, axes}, {}) : nullptr;
      if (std::ranges::count(items, nullptr)) continue;  // what was made is dead
      Node* result = items.size() == 1 ? items[0] : add("Concat", items, {{"axis", axis}});
      if (!result) continue;
      context_.remarks.applied(kLoops.name, kStacked, *stack, fmt::format("{} items", items.size()));
      module_.replace(stack, result);
      module_.erase_with_dead_operands(stack);
      ++changes_;
    }
  }

  // Hoisting --------------------------------------------------------------------------------------------------------
  void hoist(const Loop& loop) {
    Graph* outside = loop.header->parent();
    auto is_there = [&](const Apply* entry) { return entry->graph() == outside; };
    if (!outside || !std::ranges::all_of(loop.entries, is_there)) return;
    bool surely_runs =
        std::ranges::all_of(loop.entries, [&](const Apply* entry) { return first_test_holds(loop, *entry); });
    for (const Graph* graph : {loop.header, loop.again}) {
      auto nodes = nodes_of_.find(graph);
      if (nodes == nodes_of_.end()) continue;
      for (Apply* node : nodes->second) {
        if (node->is_erased() || node->graph() != graph || !is_invariant(loop, *node)) continue;
        if (std::string reason = why_not(*node, surely_runs || graph == loop.header); !reason.empty()) {
          context_.remarks.refused(kLoops.name, kHoisted, *node, std::move(reason));
          continue;
        }
        module_.move(node, outside);
        context_.remarks.applied(kLoops.name, kHoisted, *node, fmt::format("out of @{}", loop.header->name()));
        ++changes_;
      }
    }
  }

  static bool first_test_holds(const Loop& loop, const Apply& entry) {
    Iteration first(*loop.header);
    for (const Parameter* p : loop.header->parameters()) {
      if (const Tensor* start = constant_tensor(entry.input(p->index() + 1))) first.bind(p, *start);
    }
    std::optional<bool> test = first.truth(loop.choice->input(0));
    return test && *test == loop.goes_on_when();
  }

  static bool is_invariant(const Loop& loop, const Apply& node) {
    bool is_item = node.primitive() == Primitive::TupleGetItem;
    bool is_operation = node.primitive() == Primitive::Operation && node.op().known && node.op().effect == Effect::Pure;
    if (!is_item && !is_operation) return false;
    return std::ranges::all_of(node.operands(), [&](const Use& use) {
      if (constant_function(use.node)) return false;
      return !use.node->graph() || !use.node->graph()->is_inside(loop.header);
    });
  }

  std::string why_not(const Apply& node, bool surely_runs) {
    if (node.primitive() == Primitive::TupleGetItem) return "";
    if (!surely_runs && !cannot_fail(node)) return "it may fail, and the loop may have no iteration";
    double bytes = analysis::bytes_of(node.type());
    if (analysis::is_worth_keeping(context_.inference, node, bytes)) return "";
    return fmt::format("it would be kept for the whole loop: {:.0f} bytes that are soon computed again", bytes);
  }

  static bool is_positive(const Node* node) {
    const Value* divisor = node->as_value();
    return divisor && analysis::RangeAnalysis().range(divisor).low > 0;
  }

  // No data of these types makes it fail: shapes are static, so that inference has seen that they fit, and no element is an
  // index, a divisor of integers or a text to read.
  static bool cannot_fail(const Apply& node) {
    auto is_plain = [](const Type* type) {
      return type && (type->is_none() || (type->is_tensor() && type->is_static() && type->dtype() != DType::String));
    };
    if (!is_plain(node.type())) return false;
    if (!std::ranges::all_of(node.operands(), [&](const Use& use) { return is_plain(use.node->type()); })) return false;
    switch (node.op().fails) {
      case Fails::OnAnything: return false;
      case Fails::OnShape: return constant_tensor(node.input(1)) != nullptr;
      case Fails::OnZero: return !is_integer(node.type()->dtype()) || is_positive(node.input(1));
      case Fails::Never: return true;
    }
    return false;
  }

  PassContext& context_;
  Module& module_;
  boost::unordered_flat_map<const Graph*, std::span<Apply* const>> nodes_of_;  // operands first
  std::vector<const Graph*> changed_graphs_;                                   // in which loops were unrolled
  size_t changes_ = 0;
};

size_t run_loops(PassContext& context) { return Loops(context).run(); }

}  // namespace

const Pass kLoops{"loops", "loops", "unroll short loops, hoist invariants", run_loops};

}  // namespace anfora::passes
