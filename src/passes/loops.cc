// Loops (analysis/loops.h):
//
//   - collected-elements elements of a tensor that a loop collects over its whole length are the tensor.
//   - outside-results    a loop that gives nothing but values from outside is not run.
//   - loop-unrolled      how often the body runs is known, and the iterations in a row are not more than the loop is. A test that is
//                        false at once leaves the values that the loop starts from, whatever the size.
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
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <limits>
#include <optional>
#include <vector>

#include "analysis/cost.h"
#include "analysis/loops.h"
#include "analysis/range.h"
#include "ir/clone.h"
#include "ir/order.h"
#include "ir/queries.h"
#include "passes/pass.h"
#include "rewrite/admission.h"

namespace anfora::passes {

extern const Pass kLoops;

namespace {

using namespace ir;
using analysis::KnownIterations;
using analysis::Loop;
using analysis::LoopRun;

constexpr std::string_view kCollected = "collected-elements";
constexpr std::string_view kOutside = "outside-results";
constexpr std::string_view kUnrolled = "loop-unrolled";
constexpr std::string_view kHoisted = "loop-invariant";

// Applications that an unrolled loop may have more than the loop.
constexpr size_t kMostGrowth = 2;
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
      std::optional<Loop> loop = Loop::of(*graph.graph, order, calls);
      if (!loop || !loop->body()) continue;
      collect(*loop);
      std::erase_if(loop->entries, [&](Apply* entry) { return skip(*loop, *entry) || unroll(*loop, *entry); });
      if (loop->entries.empty()) continue;
      hoist(*loop);
    }
    return changes_;
  }

 private:
  // Collected elements ------------------------------------------------------------------------------------------------
  void collect(const Loop& loop) {
    if (loop.entries.size() != 1) return;
    const LoopRun run(loop, *loop.entries[0]);
    const auto bound = run.bound();
    for (const Parameter* p : loop.header->parameters()) {
      const Node* item = run.variable(p).item;
      while (item && item->as_apply() && item->as_apply()->is("Identity")) item = item->as_apply()->input(0);
      const Apply* element = bound && item ? item->as_apply() : nullptr;
      const auto scan = element ? run.scan_of(*element, *bound, &context_.inference) : std::nullopt;
      if (!scan || !loop.is_outside(scan->tensor)) continue;
      std::vector<Apply*> stacks;
      for (const Use& use : p->uses()) {
        if (use.user->is("StackSequence") && use.user->graph()->is_inside(loop.exit())) stacks.push_back(use.user);
      }
      for (Apply* stack : stacks) {
        Node* whole = as_stacked(*stack, *scan, loop);
        if (!whole) continue;
        context_.remarks.applied(kLoops.name, kCollected, *stack);
        module_.replace(stack, whole);
        module_.erase_with_dead_operands(stack);
        ++changes_;
      }
    }
  }

  // The tensor with its elements in the order and along the axis of a stack, outside of the loop; null: there is no such application.
  Node* as_stacked(const Apply& stack, const LoopRun::Scan& scan, const Loop& loop) {
    const int rank = rank_of(scan.tensor);
    const auto axis = rank < 0 ? std::nullopt : axis_of(stack, rank);
    if (!axis) return nullptr;
    Node* whole = scan.tensor;
    auto add = [&](std::string_view op, std::span<Node* const> inputs, const AttributeSet& attributes) {
      Apply* made = context_.apply(kLoops.name, kCollected, stack, op, inputs, attributes);
      if (made && loop.header->parent()) module_.move(made, loop.header->parent());
      whole = made;
    };
    if ((stack.attributes().get_int("reverse", 0) != 0) != scan.reversed) {
      auto integer = [&](int64_t i) -> Node* { return module_.constant(Tensor::vector<int64_t>(std::array{i})); };
      Node *last = integer(-1), *end = integer(-std::numeric_limits<int64_t>::max());
      add("Slice", std::array{whole, last, end, integer(scan.axis), last}, {});
    }
    if (!whole || *axis == scan.axis) return whole;
    std::vector<int64_t> order;
    for (int64_t i = 0; i < rank; ++i) {
      if (i != scan.axis) order.push_back(i);
    }
    order.insert(order.begin() + *axis, scan.axis);
    add("Transpose", std::array{whole}, {{"perm", order}});
    return whole;
  }

  // Results from outside ------------------------------------------------------------------------------------------------
  // Whether the call of the loop is gone.
  bool skip(const Loop& loop, Apply& entry) {
    if (!is_reached(entry.type())) return false;  // it never ends
    Graph* into = entry.graph();
    Node* result = loop.exit()->result();
    auto is_seen = [&](const Node* node) {
      return !constant_function(node) && loop.is_outside(node) && (!node->graph() || into->is_inside(node->graph()));
    };
    if (Apply* tuple = result->as(Primitive::MakeTuple)) {
      std::vector<Node*> items;
      for (const Use& use : tuple->operands()) items.push_back(use.node);
      if (!std::ranges::all_of(items, is_seen)) return false;
      Apply* made = module_.make_tuple(into, items);
      made->set_type(tuple->type());
      made->set_location(entry.location());
      result = made;
    } else if (!is_seen(result)) {
      return false;
    }
    context_.remarks.applied(kLoops.name, kOutside, entry);
    module_.replace(&entry, result);
    module_.erase_with_dead_operands(&entry);
    ++changes_;
    return true;
  }

  // Unrolling -------------------------------------------------------------------------------------------------------
  struct Size {
    size_t written = 0;   // operators of the loop but for its end
    size_t unrolled = 0;  // those that an iteration leaves
  };
  Size size_of(const Loop& loop, KnownIterations& known) const {
    Size size{.written = 1};  // the loop itself
    for (const auto& [graph, nodes] : nodes_of_) {
      if (!graph->is_inside(loop.header) || graph->is_inside(loop.exit())) continue;
      for (const Apply* node : nodes) {
        if (node->is_erased() || node->primitive() != Primitive::Operation || known.is_known(node)) continue;
        ++size.unrolled;
        size.written += !is_done_by_loop(known, *node);
      }
    }
    return size;
  }
  // Reading item i of a tensor, and collecting results: a Scan or Loop does it without an operator of its own.
  static bool is_done_by_loop(KnownIterations& known, const Apply& node) {
    if (node.is("SequenceInsert")) return true;
    return node.is("Gather") && !node.input(1)->is_value() && known.is_known(node.input(1));
  }

  // What the loop stacks at its end is then to be a Concat.
  std::string why_not_stacked(const Loop& loop, size_t count) const {
    if (count < 2) return "";
    const Operator& concat = module_.context().get_operator("Concat");
    for (const auto& [graph, nodes] : nodes_of_) {
      if (!graph->is_inside(loop.exit())) continue;
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
    KnownIterations known(loop, entry);
    std::optional<size_t> count = known.count();
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
    changed_graphs_.push_back(entry.graph());
    size_t first_copy = module_.graphs().size();
    Apply* call = &entry;
    for (size_t i = 0; i <= *count; ++i) {
      Apply* enter = inline_call(module_, call, *loop.header)->as_apply();
      Apply* choice = enter->input(0)->as_apply();
      Graph* taken = constant_function(choice->input((i < *count) == loop.goes_on_when ? 1 : 2));
      module_.set_operand(enter, 0, taken->value());
      if (!choice->has_uses()) module_.erase(choice);
      Node* result = inline_call(module_, enter, *taken);
      call = i < *count ? result->as_apply() : nullptr;
    }
    erase_unused_copies(first_copy);
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

  // Hoisting --------------------------------------------------------------------------------------------------------
  void hoist(const Loop& loop) {
    Graph* outside = loop.header->parent();
    auto is_there = [&](const Apply* entry) { return entry->graph() == outside; };
    if (!outside || !std::ranges::all_of(loop.entries, is_there)) return;
    bool surely_runs = std::ranges::all_of(
        loop.entries, [&](const Apply* entry) { return KnownIterations(loop, *entry).runs_at_all(); });
    for (const Graph* graph : {loop.header, static_cast<const Graph*>(loop.body())}) {
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

  static bool is_invariant(const Loop& loop, const Apply& node) {
    bool is_item = node.primitive() == Primitive::TupleGetItem;
    bool is_operation = node.primitive() == Primitive::Operation && node.op().known && node.op().effect == Effect::Pure;
    if (!is_item && !is_operation) return false;
    return std::ranges::all_of(node.operands(), [&](const Use& use) {
      return !constant_function(use.node) && loop.is_outside(use.node);
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
