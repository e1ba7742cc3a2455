// Rematerialization: a large value that is made of nearly nothing is computed again where it is next read, instead of being
// kept over the steps that need the most memory. It is the decision of common subexpressions (cse.cc) in reverse: what that
// would not have shared is taken apart.
//
//     %m = Expand(%s)                                      %m = Expand(%s)
//     %a = Add(%x, %m)                                     %a = Add(%x, %m)
//     %b = MatMul(%a, …)    ◀ the peak: %m is alive   →    %b = MatMul(%a, …)
//     %c = Add(…, %m)                                      %c = Add(…, Expand(%s))
//
// Greedy: of the values alive at the peak of a graph (analysis/memory_profile.h) that are not read there, the largest cheap
// one is copied for its readers behind the peak, as long as that lowers the level there. Copies stay only if the planned peak
// comes down by kLeastSaving in the end. For execution only: a model gets no more nodes by it. The number of tries is
// bounded by the size of the graph, each one costs O(n log n).
#include <fmt/format.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <vector>

#include "analysis/cost.h"
#include "analysis/memory_profile.h"
#include "passes/pass.h"

namespace anfora::passes {

extern const Pass kRematerialize;

namespace {

using namespace ir;

constexpr std::string_view kCopied = "rematerialize";

// Values that are tried, and applications that are visited in trying.
constexpr size_t kMostTries = 64, kMostVisited = 2'000'000;
// Share of the peak that must be saved in all.
constexpr double kLeastSaving = 1.0 / 64;

class Rematerialization {
 public:
  explicit Rematerialization(PassContext& context) : context_(context), module_(context.module) {}

  size_t run() {
    ModuleOrder order = topological_order(module_);
    std::vector<const Graph*> graphs;
    for (const GraphOrder& graph : order.graphs) {
      if (std::ranges::any_of(graph.nodes, [&](const Apply* node) { return is_candidate(*node); })) {
        graphs.push_back(graph.graph);
      }
    }
    for (const Graph* graph : graphs) lower_peak(*graph);
    return changes_;
  }

 private:
  bool is_candidate(const Apply& node) {
    if (node.primitive() != Primitive::Operation || node.num_outputs() != 1 || node.has_one_use()) return false;
    if (node.op().effect != Effect::Pure || !node.op().known) return false;
    return !analysis::is_worth_keeping(context_.inference, node, analysis::bytes_of(node.type()));
  }

  analysis::MemoryProfile profile_of(const Graph& graph) {
    ModuleOrder order = topological_order(module_);
    auto found = std::ranges::find(order.graphs, &graph, &GraphOrder::graph);
    visited_ += found->nodes.size();
    return {*found, FreeVariables(order)};
  }

  struct Copy {
    Apply *original, *copy;
  };

  void lower_peak(const Graph& graph) {
    std::vector<Copy> copies;
    analysis::MemoryProfile profile = profile_of(graph);
    const double before = profile.peak();
    double reached = before;
    bool goes_on = true;
    for (size_t tries = 0; goes_on && tries < kMostTries && visited_ < kMostVisited;) {
      goes_on = false;
      const Apply* peak = profile.at_peak();
      for (const auto& gap : profile.gaps_at_peak()) {
        if (!is_candidate(*gap.node) || tries++ >= kMostTries) continue;
        copies.push_back(copy(*gap.node, gap.later));
        analysis::MemoryProfile next = profile_of(graph);
        goes_on = next.peak() < reached || (next.peak() == reached && next.at_peak() != peak);
        if (goes_on) {
          profile = std::move(next);
          reached = profile.peak();
          break;
        }
        take_back(copies.back());
        copies.pop_back();
      }
    }
    if (reached > before * (1 - kLeastSaving)) {
      for (size_t i = copies.size(); i-- > 0;) take_back(copies[i]);
      return;
    }
    for (const Copy& made : copies) {
      context_.remarks.applied(kRematerialize.name, kCopied, *made.original,
                               fmt::format("{:.0f} bytes; the planned peak goes from {:.0f} to {:.0f}",
                                           analysis::bytes_of(made.copy->type()), before, reached));
    }
    changes_ += copies.size();
  }

  Copy copy(Apply& node, const std::vector<Apply*>& users) {
    boost::container::small_vector<Node*, 4> inputs;
    for (const Use& use : node.operands()) inputs.push_back(use.node);
    Apply* made = module_.apply_interned(node.graph(), node.op(), {inputs.data(), inputs.size()}, &node.attributes(), 1,
                                         node.location(), node.name());
    made->set_type(node.type());
    for (Apply* user : users) {
      for (size_t i = 0; i < user->num_inputs(); ++i) {
        if (user->input(i) == &node) module_.set_operand(user, i, made);
      }
    }
    return {&node, made};
  }

  void take_back(const Copy& copy) {
    module_.replace(copy.copy, copy.original);
    module_.erase(copy.copy);
  }

  PassContext& context_;
  Module& module_;
  size_t visited_ = 0;
  size_t changes_ = 0;
};

size_t run_rematerialize(PassContext& context) { return Rematerialization(context).run(); }

}  // namespace

const Pass kRematerialize{"rematerialize", "rematerialization", "cheap values computed again instead of kept",
                          run_rematerialize};

}  // namespace anfora::passes
