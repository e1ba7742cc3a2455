#include "analysis/memory_profile.h"

#include <algorithm>

#include "analysis/cost.h"

namespace anfora::analysis {

using namespace ir;

MemoryProfile::MemoryProfile(const GraphOrder& graph, const FreeVariables& captured) {
  uint32_t next_id = graph.graph->module().next_id();
  step_of_.assign(next_id, kNone);
  owner_of_.assign(next_id, kNone);
  for (const Parameter* parameter : graph.graph->parameters()) {
    if (!parameter->is_donated()) continue;
    owner_of_[parameter->id()] = static_cast<uint32_t>(owners_.size());
    owners_.push_back({nullptr, bytes_of(parameter->type()), 0, 0, {}});
    donated_bytes_ += owners_.back().bytes;
  }
  for (Apply* node : graph.nodes) {
    if (node->is_erased()) continue;
    uint32_t step = static_cast<uint32_t>(nodes_.size());
    nodes_.push_back(node);
    step_of_[node->id()] = step;
    for (const Use& use : node->operands()) {
      read(use.node, step, captured);
      if (!constant_function(use.node) || node->primitive() != Primitive::Switch) continue;
      for (const Node* variable : captured.of(constant_function(use.node))) {
        if (owner(variable) != kNone) closures_[node].push_back(owner(variable));
      }
    }
    bool is_view = node->primitive() == Primitive::TupleGetItem ||
                   (node->op().fusion == FusionKind::View && node->num_outputs() == 1 && node->num_inputs() > 0);
    if (is_view) {
      owner_of_[node->id()] = owner(node->input(0));
    } else if (node->primitive() == Primitive::Operation || node->primitive() == Primitive::Call) {
      owner_of_[node->id()] = static_cast<uint32_t>(owners_.size());
      owners_.push_back({node, memory_of(*node), 2 * step + 1, 2 * step + 1, {}});
    }
  }
  build();
}

uint32_t MemoryProfile::owner(const Node* node) const {
  return node->id() < owner_of_.size() ? owner_of_[node->id()] : kNone;
}

void MemoryProfile::read(const Node* node, uint32_t step, const FreeVariables& captured) {
  if (const Graph* function = constant_function(node)) {
    for (const Node* variable : captured.of(function)) {
      if (owner(variable) != kNone) owners_[owner(variable)].reads.insert(step);
    }
  } else if (owner(node) != kNone) {
    owners_[owner(node)].reads.insert(step);
  } else if (auto closure = closures_.find(node); closure != closures_.end()) {
    for (uint32_t o : closure->second) owners_[o].reads.insert(step);
  }
}

void MemoryProfile::build() {
  const size_t leaves = 2 * std::max<size_t>(nodes_.size(), 1);
  std::vector<double> difference(leaves + 1);
  for (uint32_t o = 0; o < owners_.size(); ++o) {
    Owner& value = owners_[o];
    if (!value.reads.empty()) {
      uint32_t last = *value.reads.rbegin();
      const Apply* reader = nodes_[last];
      bool is_taken_over =
          reader->primitive() == Primitive::Operation && owner(reader) != kNone &&
          owners_[owner(reader)].node == reader && owners_[owner(reader)].bytes == value.bytes &&
          std::ranges::any_of(reader->op().in_place, [&](int i) {
            return static_cast<size_t>(i) < reader->num_inputs() && owner(reader->input(static_cast<size_t>(i))) == o;
          });
      value.end = std::max(value.begin, 2 * last + (is_taken_over ? 0 : 1));
    }
    difference[value.begin] += value.bytes;
    difference[value.end + 1] -= value.bytes;
  }
  size_t width = 1;
  while (width < leaves) width *= 2;
  tree_.assign(2 * width, {});
  double level = 0;
  for (size_t i = 0; i < leaves; ++i) tree_[width + i].max = level += difference[i];
  for (size_t at = width; at-- > 1;) tree_[at].max = std::max(tree_[2 * at].max, tree_[2 * at + 1].max);
}

void MemoryProfile::add(uint32_t from, uint32_t to, double bytes) {
  if (from > to || bytes == 0) return;
  changes_.push_back({from, to, bytes});
  add(1, 0, static_cast<uint32_t>(tree_.size() / 2 - 1), changes_.back());
}

// At the node of the tree that holds the leaves low … high.
void MemoryProfile::add(size_t at, uint32_t low, uint32_t high, const Change& change) {
  if (change.to < low || high < change.from) return;
  if (change.from <= low && high <= change.to) {
    tree_[at].sum += change.bytes;
    tree_[at].max += change.bytes;
    return;
  }
  uint32_t middle = low + (high - low) / 2;
  add(2 * at, low, middle, change);
  add(2 * at + 1, middle + 1, high, change);
  tree_[at].max = tree_[at].sum + std::max(tree_[2 * at].max, tree_[2 * at + 1].max);
}

uint32_t MemoryProfile::distance(const Apply& earlier, const Apply& node) const {
  if (owner(&earlier) == kNone) return 0;
  uint32_t last = owners_[owner(&earlier)].end / 2, step = step_of_[node.id()];
  return step > last ? step - last : 0;
}

void MemoryProfile::merge(const Apply& earlier, const Apply& node) {
  changes_.clear();
  saved_.clear();
  uint32_t e = owner(&earlier), n = owner(&node);
  if (e == kNone || n == kNone || e == n || owners_[n].node != &node) return;
  Owner &kept = owners_[e], &gone = owners_[n];
  if (gone.begin > kept.end) {
    add(kept.end + 1, gone.begin - 1, kept.bytes);
  } else {
    add(gone.begin, std::min(kept.end, gone.end), -kept.bytes);
  }
  saved_.push_back({e, kept.end, {}, {}});
  for (uint32_t step : gone.reads) {
    if (kept.reads.insert(step).second) saved_.back().added.push_back(step);
  }
  kept.end = std::max(kept.end, gone.end);

  // What only the merged application still needed dies earlier.
  const uint32_t step = step_of_[node.id()];
  for (const Use& use : node.operands()) {
    uint32_t o = owner(use.node);
    if (o == kNone || !owners_[o].reads.contains(step)) continue;
    Owner& operand = owners_[o];
    saved_.push_back({o, operand.end, {}, {step}});
    operand.reads.erase(step);
    uint32_t end = operand.reads.empty() ? operand.begin : 2 * *operand.reads.rbegin() + 1;
    if (end >= operand.end) continue;
    add(end + 1, operand.end, -operand.bytes);
    operand.end = end;
  }
}

void MemoryProfile::undo_merge() {
  for (size_t i = changes_.size(); i-- > 0;) {
    Change back{changes_[i].from, changes_[i].to, -changes_[i].bytes};
    add(1, 0, static_cast<uint32_t>(tree_.size() / 2 - 1), back);
  }
  changes_.clear();
  for (size_t i = saved_.size(); i-- > 0;) {
    Owner& value = owners_[saved_[i].owner];
    value.end = saved_[i].end;
    for (uint32_t step : saved_[i].added) value.reads.erase(step);
    for (uint32_t step : saved_[i].removed) value.reads.insert(step);
  }
  saved_.clear();
}

double MemoryProfile::level(const Apply& node) const {
  const size_t leaf = tree_.size() / 2 + 2 * size_t{step(node)};
  double before = tree_[leaf].max, after = tree_[leaf + 1].max;
  double above = 0;
  for (size_t at = leaf / 2; at > 0; at /= 2) above += tree_[at].sum;
  return std::max(std::max(before, after) + above - donated_bytes_, 0.0);
}

const Apply* MemoryProfile::at_peak() const {
  if (nodes_.empty()) return nullptr;
  size_t at = 1;
  while (at < tree_.size() / 2) at = tree_[2 * at].max >= tree_[2 * at + 1].max ? 2 * at : 2 * at + 1;
  return nodes_[std::min((at - tree_.size() / 2) / 2, nodes_.size() - 1)];
}

// Adds the users of a value, or of a view on it, behind the step. False: some are not of the graph.
bool MemoryProfile::find_later(const Apply& member, uint32_t step, Gap& gap) const {
  for (const Use& use : member.uses()) {
    Apply* user = use.user;
    if (user->graph() != member.graph() || step_of_[user->id()] == kNone) return false;
    if (step_of_[user->id()] > step) {
      if (!std::ranges::count(gap.later, user)) gap.later.push_back(user);
    } else if (owner(user) == owner(&member) && !std::ranges::count(gap.views, user)) {
      const size_t before = gap.later.size();
      gap.views.push_back(user);
      if (!find_later(*user, step, gap)) return false;
      if (gap.later.size() == before) std::erase(gap.views, user);
    }
  }
  return true;
}

std::vector<MemoryProfile::Gap> MemoryProfile::gaps_at_peak() const {
  std::vector<Gap> gaps;
  const Apply* peak = at_peak();
  if (!peak) return gaps;
  const uint32_t step = step_of_[peak->id()];
  for (const Owner& value : owners_) {
    if (!value.node || value.begin >= 2 * step || value.end <= 2 * step + 1 || value.reads.contains(step)) continue;
    Gap gap{value.node, {}, {}, value.bytes};
    if (find_later(*value.node, step, gap) && !gap.later.empty()) gaps.push_back(std::move(gap));
  }
  std::ranges::stable_sort(gaps, std::greater(), &Gap::bytes);
  return gaps;
}

bool MemoryProfile::reaches(const Node& node, const Apply& reader) const {
  const uint32_t o = owner(&node);
  return o == kNone || owners_[o].end / 2 >= step_of_[reader.id()];
}

std::vector<MemoryProfile::Gap> MemoryProfile::alive_at_peak() const {
  std::vector<Gap> alive;
  const Apply* peak = at_peak();
  if (!peak) return alive;
  const uint32_t step = step_of_[peak->id()];
  for (const Owner& value : owners_) {
    if (value.node && value.begin <= 2 * step + 1 && value.end >= 2 * step)
      alive.push_back({value.node, {}, {}, value.bytes});
  }
  std::ranges::stable_sort(alive, std::greater(), &Gap::bytes);
  return alive;
}

}  // namespace anfora::analysis
