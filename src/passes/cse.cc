// Common subexpressions: two pure applications of one operator with the same attributes and the same operands are one.
//
// Value numbering by hash: applications are visited operands first, so that operands are already merged when their user
// is looked up, and one pass finds everything. An application may take the place of another in its own graph or in a
// graph nested below it; graphs are therefore visited from the outside in, and a lookup walks up the parents (their
// number is the depth of nesting). Near-linear. Random operators and effects stay as they are, and so do calls of
// functions that have some; the other calls are expressions like any other.
//
// Sharing has a price: the value is kept from its first reader to the last of both.
//
//     %m = Expand(%s)   ── kept ──────────────────────────   %m' = Expand(%s)
//     … Add(%a, %m)     … what needs the most memory …        … Add(%b, %m')
//
// It is paid where computing again takes longer than to write the result (analysis/cost.h), which is so for nearly all
// operators. What makes a large result of nearly nothing (Expand, ConstantOfShape, a Cast of bools) stays twice where
// sharing would raise the planned peak of the graph (analysis/memory_profile.h); the later one then stands for those that
// follow. rematerialize.cc is the same decision in reverse. A value of an outer graph is always shared with inner ones.
//
// An application with fewer results than another of the same operator is that one, too: MaxPool(%x) is item 0 of MaxPool:2(%x).
//
// Functions are equal when their bodies are, node by node, up to their parameters and the functions nested in them. Equal ones
// in the same place are one where that makes a choice or a call superfluous: as branches of one condition, or called with the
// same arguments. Others are better known each by itself (branches.cc).
#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <optional>
#include <vector>

#include "analysis/calls.h"
#include "analysis/cost.h"
#include "analysis/memory_profile.h"
#include "ir/isomorphic.h"
#include "ir/order.h"
#include "passes/expression.h"
#include "passes/pass.h"
#include "support/hash_index.h"

namespace anfora::passes {

extern const Pass kCse;

namespace {

using namespace ir;

constexpr std::string_view kFunctions = "equal-functions", kFewerResults = "fewer-results";

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
    if (!is_new) return known_[last_ = at].node;
    known_.push_back({node, graph});
    for (Graph* outer = graph->parent(); outer; outer = outer->parent()) {
      uint32_t found = index_.find(scoped(hash, outer), [&](uint32_t i) { return is(i, *node, outer); });
      if (found != HashIndex::kNone) return known_[at].node = known_[found].node;
    }
    return nullptr;
  }
  // The node stands for those that follow, instead of the one that was found last.
  void stand_in(Apply* node) { known_[last_].node = node; }
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
  uint32_t last_ = 0;
};

class Merging {
 public:
  explicit Merging(PassContext& context) : context_(context), module_(context.module) {}

  size_t run() {
    auto order = shared_order(module_);
    if (order->graphs.size() > 1) calls_.emplace(*order);
    std::vector<const GraphOrder*> graphs;
    for (const GraphOrder& graph : order->graphs) graphs.push_back(&graph);
    std::ranges::stable_sort(graphs, {}, [](const GraphOrder* g) { return g->graph->depth(); });
    if (share_results(graphs)) return merged_;  // the next run finds what that made equal
    merge_applications(graphs);
    if (graphs.size() > 1) merge_functions(graphs);
    return merged_;
  }

 private:
  bool may_merge(const Apply& node) const {
    switch (node.primitive()) {
      case Primitive::Switch:
      case Primitive::MakeTuple:
      case Primitive::TupleGetItem: return true;
      case Primitive::Operation: return node.op().effect == Effect::Pure && node.op().known;
      case Primitive::Call: {
        analysis::Callees callees = analysis::known_callees(node);
        return calls_ && !callees.empty() && std::ranges::all_of(callees, [&](Graph* g) { return calls_->is_pure(g); });
      }
      default: return false;
    }
  }

  // Results ---------------------------------------------------------------------------------------------------------

  static bool has_optional_results(const Operator& op) {
    return op.outputs.size() > 1 && op.outputs.back().arity == Formal::Arity::Optional;
  }

  bool share_results(std::span<const GraphOrder* const> graphs) {
    boost::unordered_flat_map<uint64_t, Apply*> known;  // by operation and graph
    for (const GraphOrder* entry : graphs) {
      for (Apply* node : entry->nodes) {
        if (!may_merge(*node) || !has_optional_results(node->op())) continue;
        const uint64_t hash = hash_of_operation(*node);
        auto in_scope = [&](const Graph* graph) { return hash_combine(hash, graph->value()->id()); };
        Apply* same = nullptr;
        for (const Graph* graph = entry->graph; graph && !same; graph = graph->parent()) {
          const auto found = known.find(in_scope(graph));
          if (found != known.end() && are_same_operation(*found->second, *node)) same = found->second;
        }
        if (!same) {
          known.emplace(in_scope(entry->graph), node);
        } else if (same->num_outputs() != node->num_outputs()) {
          known[in_scope(same->graph())] = share_results(*same, *node);
        }
      }
    }
    return merged_ > 0;
  }

  // What stands for both from here on, or for the first. More results may take longer: a branch that wants them has them alone.
  Apply* share_results(Apply& first, Apply& second) {
    Apply& few = first.num_outputs() < second.num_outputs() ? first : second;
    Apply* many = &few == &first ? &second : &first;
    auto is_item = [](const Use& use) { return use.user->primitive() == Primitive::TupleGetItem; };
    if (many->graph() != first.graph() || (few.num_outputs() > 1 && !std::ranges::all_of(few.uses(), is_item))) return &first;
    context_.remarks.applied(kCse.name, kFewerResults, few);
    Node* result = many;
    if (few.num_outputs() == 1) {
      result = module_.tuple_item(many->graph(), many, 0);
      result->set_type(few.type());
    }
    replace(few, result);
    ++merged_;
    return many;
  }

  void replace(Apply& node, Node* by) {
    module_.replace(&node, by);
    module_.erase(&node);
  }

  // Applications ----------------------------------------------------------------------------------------------------

  void merge_applications(std::span<const GraphOrder* const> graphs) {
    size_t total = 0;
    for (const GraphOrder* graph : graphs) total += graph->nodes.size();
    Expressions expressions(total);
    for (const GraphOrder* entry : graphs) {
      const auto& [graph, nodes, dead] = *entry;
      profile_.reset();
      for (size_t i = 0; i < nodes.size(); ++i) {
        // Merging an operand in between changes the hash; then the line is missed, and nothing else.
        constexpr size_t kAhead = 4;
        if (i + kAhead < nodes.size()) expressions.prefetch(*nodes[i + kAhead]);
        Apply* node = nodes[i];
        if (!may_merge(*node)) continue;
        Apply* same = expressions.find_or_enter(node, hash_of_expression(*node));
        if (!same) continue;
        if (same->graph() == graph && !pays(*same, *node)) {
          expressions.stand_in(node);
          continue;
        }
        rewrite::Remark* remark = context_.remarks.applied(kCse.name, kCse.name, *node);
        if (remark) remark->before = rewrite::work_of(context_.inference, *node);
        replace(*node, same);
        ++merged_;
      }
    }
  }

  // Whether sharing pays for the memory that it takes. The profile of the graph is made when it is first asked.
  bool pays(const Apply& same, const Apply& node) {
    const double bytes = analysis::bytes_of(node.type());
    bool is_cheap =
        node.primitive() == Primitive::Operation && !analysis::is_worth_keeping(context_.inference, node, bytes);
    if (!is_cheap && !profile_) return true;
    if (!profile_ && !make_profile(*node.graph())) return true;
    const double before = profile_->peak();
    const uint32_t distance = profile_->distance(same, node);
    profile_->merge(same, node);
    const double rise = profile_->peak() - before;
    if (!is_cheap || rise <= 0 || analysis::is_worth_keeping(context_.inference, node, rise)) return true;
    context_.remarks.refused(
        kCse.name, kCse.name, node,
        fmt::format("sharing would keep {:.0f} bytes for {} steps and raise the planned peak from {:.0f} to {:.0f}; "
                    "computing them again takes {:.0f} us",
                    bytes, distance, before, before + rise, analysis::estimate_us(context_.inference, node)));
    profile_->undo_merge();
    return false;
  }

  bool make_profile(const Graph& graph) {
    ModuleOrder order = topological_order(module_);
    auto found = std::ranges::find(order.graphs, &graph, &GraphOrder::graph);
    if (found == order.graphs.end()) return false;  // nothing reaches it any more
    profile_.emplace(*found, FreeVariables(order));
    return true;
  }

  // Functions -------------------------------------------------------------------------------------------------------
  // Whether two functions are one, for all that is hashed: operators and attributes in order, and what is read from outside.
  static uint64_t hash_of(const Graph& graph, std::span<Apply* const> nodes) {
    uint64_t h = hash_combine(graph.parameters().size(), hash_pointer(graph.parent()));
    for (const Apply* node : nodes) {
      if (node->is_erased()) continue;
      h = hash_combine(h, hash_combine(hash_pointer(&node->op()), hash_pointer(&node->attributes())));
      for (const Use& use : node->operands()) {
        bool is_outside = !constant_function(use.node) && use.node->graph() != &graph;
        h = hash_combine(h, is_outside ? use.node->id() : 0);
      }
    }
    return h;
  }

  void merge_functions(std::span<const GraphOrder* const> graphs) {
    boost::unordered_flat_map<uint64_t, std::vector<Graph*>> by_hash;
    boost::unordered_flat_set<const Graph*> gone;
    for (const GraphOrder* entry : graphs) {  // outer ones first
      Graph* graph = entry->graph;
      if (graph == module_.main() || gone.contains(graph->parent())) {
        if (graph != module_.main()) gone.insert(graph);
        continue;
      }
      std::vector<Graph*>& alike = by_hash[hash_of(*graph, entry->nodes)];
      auto same = std::ranges::find_if(
          alike, [&](Graph* other) { return are_used_alike(*other, *graph) && isomorphic(*other, *graph); });
      if (same == alike.end()) {
        alike.push_back(graph);
        continue;
      }
      context_.remarks.applied(kCse.name, kFunctions, *graph->value(),
                               fmt::format("@{} is @{}", graph->name(), (*same)->name()));
      module_.replace(graph->value(), (*same)->value());
      gone.insert(graph);
      ++merged_;
    }
  }

  // The condition that a function is a branch of; null: none. Nothing: of several, or it is also used otherwise.
  static std::optional<const Node*> condition_of(const Graph& graph) {
    std::optional<const Node*> condition;
    for (const Use& use : graph.value()->uses()) {
      const Apply* choice = use.user->as(Primitive::Switch);
      const Node* of_use = choice ? choice->input(0) : nullptr;
      if (condition && *condition != of_use) return std::nullopt;
      condition = of_use;
    }
    return condition;
  }
  // Whether it helps that they are one: they are branches of one condition, or called with the same arguments.
  static bool are_used_alike(const Graph& f, const Graph& g) {
    std::optional<const Node*> a = condition_of(f), b = condition_of(g);
    if (!a || !b || *a != *b) return false;
    if (*a) return true;
    std::vector<Apply*> calls = analysis::callers_of(g).calls;
    return std::ranges::any_of(analysis::callers_of(f).calls, [&](const Apply* x) {
      return std::ranges::any_of(calls, [&](const Apply* y) {
        return std::ranges::equal(x->operands().subspan(1), y->operands().subspan(1), {}, &Use::node, &Use::node);
      });
    });
  }

  PassContext& context_;
  Module& module_;
  std::optional<analysis::CallOrder> calls_;
  std::optional<analysis::MemoryProfile> profile_;
  size_t merged_ = 0;
};

size_t run_cse(PassContext& context) { return Merging(context).run(); }

}  // namespace

const Pass kCse{"cse", "common subexpressions", "merge duplicate computations", run_cse};

}  // namespace anfora::passes
