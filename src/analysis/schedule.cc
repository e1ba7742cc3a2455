#include "analysis/schedule.h"

#include <algorithm>
#include <queue>
#include <utility>
#include <vector>

#include "analysis/cost.h"
#include "analysis/memory_profile.h"
#include "analysis/update_order.h"

namespace anfora::analysis {

using namespace ir;

namespace {

// Larger graphs are executed in the order of the walk.
constexpr size_t kMostNodes = 100'000;
// The share of the peak that another order has to save.
constexpr double kLeastSaving = 1.0 / 64;

class Scheduling {
 public:
  Scheduling(const GraphOrder& graph, const FreeVariables& captured) : nodes_(graph.nodes), captured_(captured) {
    const uint32_t next_id = graph.graph->module().next_id();
    step_of_.assign(next_id, kNone);
    owner_of_.assign(next_id, kNone);
    steps_.resize(nodes_.size());
    for (const Parameter* parameter : graph.graph->parameters()) {
      if (parameter->is_donated()) own(*parameter, bytes_of(parameter->type()));
    }
    for (uint32_t s = 0; s < nodes_.size(); ++s) add(s);
    for (uint32_t o = 0; o < owners_.size(); ++o) {
      if (owners_[o].readers.size() == 1) steps_[owners_[o].readers[0]].freed += owners_[o].bytes;
    }
  }

  LargeVector<Apply*> run() {
    for (uint32_t s = 0; s < steps_.size(); ++s) offer(s);
    for (uint32_t next = 0; next < steps_.size(); ++next) {
      while (!free_.empty()) {
        const uint32_t s = free_.top().second;
        free_.pop();
        if (!steps_[s].is_done) execute(s);
      }
      if (!steps_[next].is_done) execute(next);
    }
    return std::move(order_);
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Step {
    double taken = 0, freed = 0;  // bytes; freed: of what nobody else is left to read
    uint32_t missing = 0;         // operands that are not computed
    bool may_move = false, is_done = false;
    std::vector<uint32_t> users;
    std::vector<uint32_t> reads;  // owners
  };
  struct Owner {
    double bytes = 0;
    std::vector<uint32_t> readers;  // steps
    size_t left = 0;                // of them
  };

  void own(const Node& node, double bytes) {
    owner_of_[node.id()] = static_cast<uint32_t>(owners_.size());
    owners_.push_back({.bytes = bytes, .readers = {}, .left = 0});
  }

  void add(uint32_t s) {
    Apply& node = *nodes_[s];
    step_of_[node.id()] = s;
    Step& step = steps_[s];
    for (const Use& use : node.operands()) {
      if (const Graph* function = constant_function(use.node)) {
        for (const Node* variable : captured_.of(function)) read(*variable, s);
      } else {
        read(*use.node, s);
      }
    }
    const bool is_operation = node.primitive() == Primitive::Operation;
    const bool is_view =
        node.primitive() == Primitive::TupleGetItem ||
        (is_operation && node.op().fusion == FusionKind::View && node.num_outputs() == 1 && node.num_inputs() > 0);
    if (is_view) {
      owner_of_[node.id()] = owner_of_[node.input(0)->id()];
    } else if (is_operation || node.primitive() == Primitive::Call) {
      step.taken = memory_of(node);
      own(node, step.taken);
    }
    const bool fails = node.type() && !node.type()->reason().empty();
    step.may_move = !fails && (is_view || (is_operation && node.op().effect == Effect::Pure && node.op().known));
  }

  void read(const Node& node, uint32_t s) {
    if (const uint32_t from = step_of_[node.id()];
        from != kNone && (steps_[from].users.empty() || steps_[from].users.back() != s)) {
      steps_[from].users.push_back(s);
      ++steps_[s].missing;
    }
    const uint32_t o = owner_of_[node.id()];
    if (o == kNone || std::ranges::count(steps_[s].reads, o)) return;
    steps_[s].reads.push_back(o);
    owners_[o].readers.push_back(s);
    ++owners_[o].left;
  }

  void offer(uint32_t s) {
    const Step& step = steps_[s];
    if (step.may_move && !step.is_done && step.missing == 0 && step.taken <= step.freed)
      free_.push({step.freed - step.taken, s});
  }

  void execute(uint32_t s) {
    Step& step = steps_[s];
    step.is_done = true;
    order_.push_back(nodes_[s]);
    for (uint32_t o : step.reads) {
      Owner& owner = owners_[o];
      if (--owner.left != 1) continue;
      const uint32_t last = *std::ranges::find_if(owner.readers, [&](uint32_t r) { return !steps_[r].is_done; });
      steps_[last].freed += owner.bytes;
      offer(last);
    }
    for (uint32_t user : step.users) {
      if (--steps_[user].missing == 0) offer(user);
    }
  }

  const LargeVector<Apply*>& nodes_;  // in the order of the walk: a step is a position there
  const FreeVariables& captured_;
  std::vector<uint32_t> step_of_, owner_of_;  // by node id
  std::vector<Step> steps_;
  std::vector<Owner> owners_;
  struct FreesLess {  // of two, the one that comes later
    bool operator()(const std::pair<double, uint32_t>& a, const std::pair<double, uint32_t>& b) const {
      return a.first != b.first ? a.first < b.first : a.second > b.second;
    }
  };
  std::priority_queue<std::pair<double, uint32_t>, std::vector<std::pair<double, uint32_t>>, FreesLess> free_;
  LargeVector<Apply*> order_;
};

LargeVector<Apply*> in_little_memory(const GraphOrder& graph, const FreeVariables& captured) {
  if (graph.nodes.size() > kMostNodes) return graph.nodes;
  GraphOrder other{.graph = graph.graph, .nodes = Scheduling(graph, captured).run(), .dead = {}};
  const double before = MemoryProfile(graph, captured).peak(), after = MemoryProfile(other, captured).peak();
  return after < before * (1 - kLeastSaving) ? std::move(other.nodes) : graph.nodes;
}

}  // namespace

LargeVector<Apply*> schedule(const GraphOrder& graph, const FreeVariables& captured) {
  return order_updates(in_little_memory(graph, captured), captured);
}

}  // namespace anfora::analysis
