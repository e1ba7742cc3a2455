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
//
// Under a memory limit (PassOptions::memory_limit) it goes on with values that take long to compute, until the plan fits: gradient
// checkpointing, chosen by the profile. Of the values alive at the peak, that one goes whose bytes come for the least time; operands that
// have gone by then are computed again with it. Instead of being computed again, a value may lie in a file meanwhile (`Offload`), where that
// takes less time, or nothing else helps. Of functions, each has memory of its own, and the largest ones are lowered first.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "analysis/cost.h"
#include "analysis/memory_profile.h"
#include "analysis/schedule.h"
#include "anfora/error.h"
#include "ir/clone.h"
#include "passes/pass.h"

namespace anfora::passes {

extern const Pass kRematerialize;

namespace {

using namespace ir;

constexpr std::string_view kCopied = "rematerialize", kOffloaded = "offload";

// Values that are tried, and applications that are visited in trying.
constexpr size_t kMostTries = 64, kMostVisited = 2'000'000;
// Share of the peak that must be saved in all.
constexpr double kLeastSaving = 1.0 / 64;
// Under a limit: values that are tried at one peak, applications that are computed again with one, and copies for each application of the
// graph.
constexpr size_t kMostTriesAtPeak = 128, kLongestChain = 64, kMostCopies = 4;
// What a file takes: bytes that a disk of today writes or reads in a microsecond, as the memory may be needed before they are read again; and
// for the file itself.
constexpr double kFileBytesPerUs = 500, kFileUs = 50;

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
    if (context_.options.memory_limit) fit(static_cast<double>(*context_.options.memory_limit));
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
    const FreeVariables captured(order);
    found->nodes = analysis::schedule(*found, captured);
    return {*found, captured};
  }

  // What was copied for users behind a gap: a value with the operands that have gone and the views on it that are read there.
  struct Copy {
    Apply *original, *copy;                          // of the value
    std::vector<std::pair<Apply*, Apply*>> all = {};  // originals and copies, operands before users
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
        copies.push_back(repeat(gap, {gap.node}));
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

  // Copies the chain, the last of which is the value, and lets the users behind the gap read the copies.
  Copy repeat(const analysis::MemoryProfile::Gap& gap, std::vector<Apply*> chain) {
    Copy made{gap.node, nullptr};
    chain.insert(chain.end(), gap.views.begin(), gap.views.end());
    copy_chain(gap, chain, made);
    return made;
  }

  // The same with a copy of the value that lies in a file.
  Copy offload(const analysis::MemoryProfile::Gap& gap) {
    Copy made{gap.node, module_.apply(gap.node->graph(), module_.context().get_operator("Offload"), {gap.node}, {}, 1,
                                      gap.node->location(), gap.node->name())};
    made.copy->set_type(gap.node->type());
    made.all.emplace_back(gap.node, made.copy);
    copy_chain(gap, gap.views, made);
    return made;
  }

  void copy_chain(const analysis::MemoryProfile::Gap& gap, std::span<Apply* const> chain, Copy& made) {
    auto image_of = [&](Node* node) {
      const auto found = std::ranges::find(made.all, node, &std::pair<Apply*, Apply*>::first);
      return found == made.all.end() ? node : found->second;
    };
    for (Apply* node : chain) {
      Apply* copy = copy_of(module_, *node, node->graph(), operands_of(*node, image_of));
      made.all.emplace_back(node, copy);
      if (node == gap.node) made.copy = copy;
    }
    for (Apply* user : gap.later) {
      for (size_t i = 0; i < user->num_inputs(); ++i) {
        Apply* read = user->input(i)->as_apply();
        if (read && (read == gap.node || std::ranges::count(gap.views, read))) module_.set_operand(user, i, image_of(read));
      }
    }
  }

  void take_back(const Copy& copy) {
    for (size_t i = copy.all.size(); i-- > 0;) {
      module_.replace(copy.all[i].second, copy.all[i].first);
      module_.erase(copy.all[i].second);
    }
  }

  // Under a limit -----------------------------------------------------------------------------------------------
  void fit(double limit) {
    std::vector<std::pair<double, const Graph*>> graphs;
    double total = 0;
    const ModuleOrder order = topological_order(module_);
    for (const GraphOrder& graph : order.graphs) {
      graphs.emplace_back(profile_of(*graph.graph).peak(), graph.graph);
      total += graphs.back().first;
    }
    std::ranges::stable_sort(graphs, std::greater(), &std::pair<double, const Graph*>::first);
    for (const auto& [peak, graph] : graphs) {
      if (total > limit) total -= peak - lower_to(*graph, peak - (total - limit));
    }
    if (total > limit) refuse(*graphs[0].second, total, limit);
  }

  // Returns the peak that is reached.
  double lower_to(const Graph& graph, double limit) {
    analysis::MemoryProfile profile = profile_of(graph);
    const double before = profile.peak();
    double us = 0;
    offloaded_ = 0;
    const size_t most = kMostCopies * graph.num_nodes();
    size_t copies = 0;
    while (profile.peak() > limit && copies < most) {
      const size_t made = lower_at_peak(graph, profile, us);
      if (made == 0) break;
      copies += made;
    }
    changes_ += copies;
    if (copies > 0) {
      context_.remarks.applied(
          kRematerialize.name, kCopied, *graph.return_node(),
          fmt::format(
              "{} applications are computed again, {} values lie in files, {:.0f} us by estimate; the planned peak of @{} goes from "
              "{:.0f} to {:.0f} bytes for the memory limit",
              copies - offloaded_, offloaded_, us, graph.name(), before, profile.peak()));
    }
    return profile.peak();
  }

  struct Choice {
    analysis::MemoryProfile::Gap gap;
    const Apply* first;  // of the users behind the gap; null: the value is offloaded
    double us;
  };

  // Computes a value again that is alive at the peak, or offloads it. Returns the number of copies; the profile is that of the graph with
  // them.
  size_t lower_at_peak(const Graph& graph, analysis::MemoryProfile& profile, double& us) {
    std::vector<Choice> choices;
    for (auto& gap : profile.gaps_at_peak()) {
      if (may_offload(gap)) choices.push_back({gap, nullptr, kFileUs + 2 * gap.bytes / kFileBytesPerUs});
      if (!is_repeatable(*gap.node)) continue;
      const Apply* first =
          *std::ranges::min_element(gap.later, {}, [&](const Apply* user) { return profile.step(*user); });
      std::vector<Apply*> chain;
      if (!find_chain(*gap.node, *first, profile, chain)) continue;
      double cost = 0;
      for (const Apply* node : chain) cost += analysis::run_us(context_.inference, *node);
      choices.push_back({std::move(gap), first, cost});
    }
    std::ranges::stable_sort(choices, std::greater(), [](const Choice& c) { return c.gap.bytes / (c.us + 1); });
    const Apply* peak = profile.at_peak();
    for (size_t i = 0; i < std::min(choices.size(), kMostTriesAtPeak); ++i) {
      const Choice& choice = choices[i];
      std::vector<Apply*> chain;
      if (choice.first) find_chain(*choice.gap.node, *choice.first, profile, chain);
      const Copy made = choice.first ? repeat(choice.gap, std::move(chain)) : offload(choice.gap);
      analysis::MemoryProfile next = profile_of(graph);
      if (next.peak() <= profile.peak() && next.level(*peak) < profile.peak()) {
        if (!choice.first) ++offloaded_;
        context_.remarks.applied(
            kRematerialize.name, choice.first ? kCopied : kOffloaded, *choice.gap.node,
            fmt::format("{:.0f} bytes less at {} for {:.0f} us", choice.gap.bytes, describe(*peak), choice.us));
        profile = std::move(next);
        us += choice.us;
        return made.all.size();
      }
      take_back(made);
    }
    return 0;
  }

  // What is handed on, as a result or to a function, is in memory anyway.
  static bool may_offload(const analysis::MemoryProfile::Gap& gap) {
    const Type* type = gap.node->type();
    if (!type || !type->is_tensor() || gap.node->op().in_file) return false;
    const DType dtype = type->dtype();
    if ((!is_float(dtype) && !is_integer(dtype) && dtype != DType::Bool) || is_sub_byte(dtype)) return false;
    return std::ranges::all_of(gap.later, [](const Apply* user) { return user->primitive() == Primitive::Operation; });
  }

  static bool is_repeatable(const Apply& node) {
    return node.primitive() == Primitive::Operation && node.num_outputs() == 1 && node.op().effect == Effect::Pure &&
           node.op().known && node.num_inputs() > 0;
  }

  // What computes the value once more for `user`, operands before users. False: too much, or what cannot be repeated has gone by then.
  bool find_chain(Apply& node, const Apply& user, const analysis::MemoryProfile& profile,
                  std::vector<Apply*>& chain) const {
    if (std::ranges::count(chain, &node)) return true;
    if (chain.size() >= kLongestChain) return false;
    for (const Use& use : node.operands()) {
      Apply* operand = use.node->as_apply();
      if (!operand || operand->graph() != node.graph() || profile.reaches(*operand, user)) continue;
      if (!is_repeatable(*operand)) continue;  // it is kept for longer, which the profile then shows
      if (!find_chain(*operand, user, profile, chain)) return false;
    }
    chain.push_back(&node);
    return true;
  }

  [[noreturn]] void refuse(const Graph& graph, double total, double limit) {
    const analysis::MemoryProfile profile = profile_of(graph);
    std::string alive;
    const auto values = profile.alive_at_peak();
    constexpr size_t kMostNamed = 3;
    for (size_t i = 0; i < std::min(values.size(), kMostNamed); ++i) {
      alive += fmt::format("{}{} ({:.0f})", i == 0 ? "" : ", ", describe(*values[i].node), values[i].bytes);
    }
    Error error(ErrorCode::ResourceExhausted,
                fmt::format("a run needs {:.0f} bytes by the plan, {:.0f} more than the memory limit of {:.0f}", total,
                            total - limit, limit));
    error.at_node(describe(*profile.at_peak()));
    if (profile.at_peak()->location()) error.at_location(to_string(*profile.at_peak()->location()));
    throw error.with_hint(fmt::format("the largest values there: {}", alive));
  }

  PassContext& context_;
  Module& module_;
  size_t visited_ = 0;
  size_t offloaded_ = 0;  // of the graph that is being lowered
  size_t changes_ = 0;
};

size_t run_rematerialize(PassContext& context) { return Rematerialization(context).run(); }

}  // namespace

const Pass kRematerialize{"rematerialize", "rematerialization", "cheap values computed again instead of kept",
                          run_rematerialize};

}  // namespace anfora::passes
