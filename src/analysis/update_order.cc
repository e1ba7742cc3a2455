#include "analysis/update_order.h"

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace anfora::analysis {

using namespace ir;

namespace {

// Whether the operator may do its work in the memory of its first operand, which others read, too.
bool is_update(const Apply& node) {
  if (node.primitive() != Primitive::Operation || node.num_outputs() != 1 || node.num_inputs() == 0 || !node.type()) return false;
  if (node.op().effect != Effect::Pure || !node.op().known || node.input(0)->has_one_use()) return false;
  const Type* operand = node.input(0)->type();
  const bool is_sequence = node.type()->kind() == TypeKind::Sequence && operand && operand->kind() == TypeKind::Sequence;
  return is_sequence || (node.op().fusion == FusionKind::Opaque && std::ranges::count(node.op().in_place, 0));
}

// Whether it stays behind what was fixed before it.
bool is_fixed(const Apply& node) {
  if (node.type() && !node.type()->reason().empty()) return true;  // nothing is computed after it
  if (node.primitive() != Primitive::Operation) return node.primitive() == Primitive::Call;
  return node.op().effect != Effect::Pure || !node.op().known;
}

class UpdateOrder {
 public:
  // `updates`: positions in the nodes.
  UpdateOrder(const LargeVector<Apply*>& nodes, const std::vector<uint32_t>& updates, const FreeVariables& captured)
      : nodes_(nodes), captured_(captured), steps_(nodes.size()) {
    for (uint32_t s : updates) {
      const auto [group, is_new] = group_of_.emplace(nodes[s]->input(0), groups_.size());
      if (is_new) groups_.emplace_back();
      groups_[group->second].updates.push_back(s);
      steps_[s].updates = static_cast<uint32_t>(group->second);
    }
    boost::unordered_flat_map<const Node*, uint32_t> step_of;
    step_of.reserve(nodes.size());
    uint32_t last_fixed = kNone;
    for (uint32_t s = 0; s < nodes.size(); ++s) {
      for (const Use& use : nodes[s]->operands()) {
        if (const Graph* function = constant_function(use.node)) {
          for (const Node* variable : captured_.of(function)) read(*variable, s, step_of);
        } else {
          read(*use.node, s, step_of);
        }
      }
      if (is_fixed(*nodes[s])) {
        if (last_fixed != kNone) need(last_fixed, s);
        last_fixed = s;
      }
      step_of.emplace(nodes[s], s);
    }
  }

  LargeVector<Apply*> run() {
    find_readers();
    for (uint32_t s = 0; s < steps_.size(); ++s) {
      if (steps_[s].updates == kNone) visit(s);
    }
    return std::move(order_);
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Step {
    std::vector<uint32_t> needs, users;
    std::vector<uint32_t> reads;  // groups that it does not update
    uint32_t missing = 0;         // of what it needs
    uint32_t place = kNone;       // in the list schedule
    uint32_t updates = kNone;     // a group
    bool is_visited = false;
  };
  // A value that is updated.
  struct Group {
    std::vector<uint32_t> updates;
    uint32_t last_reader = kNone;   // while they are found
    uint32_t left = 0;              // readers that are not scheduled
    std::vector<uint32_t> readers;  // in the order of the list schedule
    size_t num_visited = 0;         // of the readers
  };

  void need(uint32_t needed, uint32_t user) {
    steps_[user].needs.push_back(needed);
    steps_[needed].users.push_back(user);
    ++steps_[user].missing;
  }
  void read(const Node& node, uint32_t s, const boost::unordered_flat_map<const Node*, uint32_t>& step_of) {
    if (const auto from = step_of.find(&node); from != step_of.end()) need(from->second, s);
    const auto group = group_of_.find(&node);
    if (group == group_of_.end() || steps_[s].updates == group->second || std::exchange(groups_[group->second].last_reader, s) == s) return;
    steps_[s].reads.push_back(static_cast<uint32_t>(group->second));
    ++groups_[group->second].left;
  }

  // The list schedule.
  void find_readers() {
    using Heap = std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>>;
    Heap ready, held;  // held: updates whose operand is still read
    auto offer = [&](uint32_t s) { (steps_[s].updates != kNone && groups_[steps_[s].updates].left > 0 ? held : ready).push(s); };
    for (uint32_t s = 0; s < steps_.size(); ++s) {
      if (steps_[s].missing == 0) offer(s);
    }
    uint32_t place = 0;
    while (!ready.empty() || !held.empty()) {
      Heap& heap = ready.empty() ? held : ready;
      const uint32_t s = heap.top();
      heap.pop();
      if (steps_[s].place != kNone) continue;
      steps_[s].place = place++;
      for (uint32_t g : steps_[s].reads) {
        groups_[g].readers.push_back(s);
        if (--groups_[g].left > 0) continue;
        for (uint32_t update : groups_[g].updates) {
          if (steps_[update].missing == 0) ready.push(update);
        }
      }
      for (uint32_t user : steps_[s].users) {
        if (--steps_[user].missing == 0) offer(user);
      }
    }
  }

  // Puts the step into the order, behind what it needs and the readers that it waits for.
  void visit(uint32_t root) {
    std::vector<std::pair<uint32_t, size_t>> path;
    auto enter = [&](uint32_t s) {
      if (!std::exchange(steps_[s].is_visited, true)) path.emplace_back(s, 0);
    };
    enter(root);
    while (!path.empty()) {
      auto& [s, next] = path.back();
      const Step& step = steps_[s];
      Group* group = step.updates == kNone ? nullptr : &groups_[step.updates];
      if (next < step.needs.size()) {
        enter(step.needs[next++]);
      } else if (group && group->num_visited < group->readers.size() && steps_[group->readers[group->num_visited]].place < step.place) {
        enter(group->readers[group->num_visited++]);
      } else {
        order_.push_back(nodes_[s]);
        path.pop_back();
      }
    }
  }

  const LargeVector<Apply*>& nodes_;  // a step is a position there
  const FreeVariables& captured_;
  std::vector<Step> steps_;
  std::vector<Group> groups_;
  boost::unordered_flat_map<const Node*, size_t> group_of_;  // by what is updated
  LargeVector<Apply*> order_;
};

}  // namespace

LargeVector<Apply*> order_updates(LargeVector<Apply*> nodes, const FreeVariables& captured) {
  std::vector<uint32_t> updates;
  for (uint32_t s = 0; s < nodes.size(); ++s) {
    if (is_update(*nodes[s])) updates.push_back(s);
  }
  return updates.empty() ? std::move(nodes) : UpdateOrder(nodes, updates, captured).run();
}

}  // namespace anfora::analysis
