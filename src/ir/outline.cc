#include "ir/outline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <ranges>
#include <tuple>

namespace anfora::ir {
namespace {

// A graph with fewer nodes is drawn as it is.
constexpr size_t kFewNodes = 50;
// A repeat that would hide fewer nodes is none.
constexpr size_t kFewestHidden = 8;
// Boxes of one picture, and of one part of it, above which it is cut.
constexpr size_t kMostItems = 90, kItemsOfPart = 40;
// Parts of one level.
constexpr size_t kPartsOfLevel = 40;
// Nodes that begin a repeat have to be the same in a row; how many places where they come again are tried.
constexpr size_t kSeed = 4, kTried = 12;
// Operands so near count as the wiring within a layer.
constexpr size_t kNear = 8;

// Numbers that say which nodes look the same.
class Fingerprints {
 public:
  explicit Fingerprints(std::span<Apply* const> nodes,
                        const boost::unordered_flat_map<const Apply*, size_t>& position) {
    std::map<Key, uint32_t> known;
    values_.reserve(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      const Apply& node = *nodes[i];
      Key key{&node.op(), &node.attributes(), static_cast<uint32_t>(node.primitive()), shape_key(node.type()), {}};
      std::vector<int32_t>& operands = std::get<4>(key);
      for (const Use& use : node.operands()) operands.push_back(operand_key(use.node, i, position));
      values_.push_back(known.try_emplace(std::move(key), static_cast<uint32_t>(known.size())).first->second);
    }
  }
  std::span<const uint32_t> values() const { return values_; }

 private:
  using Key = std::tuple<const void*, const void*, uint32_t, std::vector<int64_t>, std::vector<int32_t>>;

  // Sizes that are no numbers are called differently from layer to layer.
  static std::vector<int64_t> shape_key(const Type* type) {
    if (!type || !type->is_tensor() || !type->has_rank()) return {type ? -1 - static_cast<int64_t>(type->kind()) : 0};
    std::vector<int64_t> key{static_cast<int64_t>(type->dtype())};
    for (Dim dim : type->dims()) key.push_back(dim.as_constant().value_or(-1));
    return key;
  }
  static int32_t operand_key(const Node* operand, size_t user,
                             const boost::unordered_flat_map<const Apply*, size_t>& position) {
    constexpr int32_t kOther = 0, kMissing = -1, kValue = -2, kFar = -3;
    if (!operand) return kMissing;
    if (operand->is_value()) return kValue;
    const Apply* apply = operand->as_apply();
    auto found = apply ? position.find(apply) : position.end();
    if (found == position.end()) return kOther;
    const size_t distance = user > found->second ? user - found->second : kNear + 1;
    return distance <= kNear ? static_cast<int32_t>(distance) : kFar;
  }

  std::vector<uint32_t> values_;
};

// How far two suffixes agree, by hashes of prefixes modulo 2⁶¹ − 1.
class Agreement {
 public:
  explicit Agreement(std::span<const uint32_t> values) : prefix_(values.size() + 1), power_(values.size() + 1, 1) {
    for (size_t i = 0; i < values.size(); ++i) {
      prefix_[i + 1] = modulo(static_cast<unsigned __int128>(prefix_[i]) * kBase + values[i] + 1);
      power_[i + 1] = modulo(static_cast<unsigned __int128>(power_[i]) * kBase);
    }
  }
  uint64_t hash(size_t begin, size_t size) const {
    const uint64_t taken = modulo(static_cast<unsigned __int128>(prefix_[begin]) * power_[size]);
    return modulo(static_cast<unsigned __int128>(prefix_[begin + size]) + kModulus - taken);
  }
  // Of those that begin at a and at b, in front of `end`; a < b.
  size_t length(size_t a, size_t b, size_t end) const {
    size_t low = 0, high = end - b;
    while (low < high) {
      const size_t middle = (low + high + 1) / 2;
      if (hash(a, middle) == hash(b, middle)) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }

 private:
  static constexpr uint64_t kModulus = (uint64_t{1} << 61) - 1, kBase = 1'000'003;
  static uint64_t modulo(unsigned __int128 x) { return static_cast<uint64_t>(x % kModulus); }
  std::vector<uint64_t> prefix_, power_;
};

struct Run {
  size_t begin = 0, period = 0, count = 0;
  size_t hidden() const { return period * (count - 1); }
};

// Runs that do not overlap, in order. Those that hide most are chosen first.
std::vector<Run> find_runs(const Agreement& agreement, size_t begin, size_t end) {
  std::vector<Run> best;
  boost::unordered_flat_map<uint64_t, std::vector<size_t>>
      places;  // of a seed behind the present one, the nearest last
  for (size_t i = end; i-- > begin;) {
    if (i + kSeed > end) continue;
    std::vector<size_t>& later = places[agreement.hash(i, kSeed)];
    Run run;
    const size_t tried = std::min(later.size(), kTried);
    for (size_t k = 0; k < tried; ++k) {
      const size_t period = later[later.size() - 1 - k] - i;
      const size_t count = 1 + agreement.length(i, i + period, end) / period;
      if (count > 1 && (run.period == 0 || period * (count - 1) > run.hidden())) run = {i, period, count};
    }
    if (run.period > 0 && run.hidden() >= kFewestHidden) best.push_back(run);
    later.push_back(i);
  }
  std::ranges::sort(best, [](const Run& a, const Run& b) {
    return a.hidden() != b.hidden() ? a.hidden() > b.hidden() : a.begin < b.begin;
  });
  std::map<size_t, Run> chosen;  // by begin
  for (Run run : best) {
    auto next = chosen.lower_bound(run.begin);
    if (next != chosen.begin()) {
      const Run& before = std::prev(next)->second;
      if (before.begin + before.period * before.count > run.begin) continue;
    }
    if (next != chosen.end()) run.count = std::min(run.count, (next->first - run.begin) / run.period);
    if (run.count > 1 && run.hidden() >= kFewestHidden) chosen.emplace(run.begin, run);
  }
  std::vector<Run> runs;
  for (const auto& [at, run] : chosen) runs.push_back(run);
  return runs;
}

}  // namespace

Outline::Outline(std::span<Apply* const> nodes, const OutlineOptions& options)
    : nodes_(nodes), collapses_(options.collapse), next_part_(options.first_part), by_position_(nodes.size()) {
  position_.reserve(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) position_.emplace(nodes[i], i);
  build();
  if (collapses_) split(top_, nullptr, "");
}

OutlineItem* Outline::item_of(const Apply& node) const {
  auto found = position_.find(&node);
  return found == position_.end() ? nullptr : by_position_[found->second];
}

bool Outline::is_carried(const Apply& from, const Apply& to) const {
  auto a = position_.find(&from), b = position_.find(&to);
  if (a == position_.end() || b == position_.end()) return false;
  for (const OutlineItem* item = by_position_[b->second]; item; item = item->outer) {
    if (item->kind != OutlineItem::Kind::Repeat) continue;
    bool holds_both = false;
    for (const OutlineItem* other = by_position_[a->second]; other; other = other->outer) holds_both |= other == item;
    if (!holds_both) continue;
    // Within one time the order of items is the order of nodes.
    const size_t begin = position_.find(item->node)->second, period = item->num_nodes / item->count;
    return (a->second - begin) / period != (b->second - begin) / period;
  }
  return false;
}

OutlineItem* Outline::make(OutlineItem::Kind kind, OutlineItem* outer) {
  all_.push_back(std::make_unique<OutlineItem>());
  all_.back()->kind = kind;
  all_.back()->outer = outer;
  return all_.back().get();
}

// The runs, and each other node by itself. What a run repeats is looked at in the same way.
void Outline::build() {
  struct Task {
    size_t begin, end;
    std::vector<OutlineItem*>* items;
    OutlineItem* outer;
  };
  const bool collapses = collapses_ && nodes_.size() >= kFewNodes;
  std::optional<Agreement> agreement;
  if (collapses) agreement.emplace(Fingerprints(nodes_, position_).values());
  std::vector<Run> filled;  // inner ones behind outer ones
  for (std::vector<Task> tasks{{0, nodes_.size(), &top_, nullptr}}; !tasks.empty();) {
    const Task task = tasks.back();
    tasks.pop_back();
    const std::vector<Run> runs = collapses ? find_runs(*agreement, task.begin, task.end) : std::vector<Run>();
    size_t at = task.begin;
    auto add_nodes = [&](size_t until) {
      for (; at < until; ++at) {
        OutlineItem* item = make(OutlineItem::Kind::Node, task.outer);
        item->node = nodes_[at];
        by_position_[at] = item;
        task.items->push_back(item);
      }
    };
    for (const Run& run : runs) {
      add_nodes(run.begin);
      OutlineItem* item = make(OutlineItem::Kind::Repeat, task.outer);
      item->node = nodes_[run.begin];
      item->count = run.count;
      item->num_nodes = run.count * run.period;
      task.items->push_back(item);
      tasks.push_back({run.begin, run.begin + run.period, &item->items, item});
      filled.push_back(run);
      at = run.begin + item->num_nodes;
    }
    add_nodes(task.end);
  }
  // Later times stand behind the first one; inner runs are filled before the runs that repeat them.
  for (const Run& run : std::ranges::reverse_view(filled)) {
    for (size_t i = run.begin + run.period; i < run.begin + run.period * run.count; ++i) {
      by_position_[i] = by_position_[i - run.period];
    }
  }
}

// Cuts a long list into parts of about the same size, where few values cross.
void Outline::split(std::vector<OutlineItem*>& items, OutlineItem* outer, const std::string& prefix) {
  for (OutlineItem* item : items) {
    if (item->kind == OutlineItem::Kind::Repeat) split(item->items, item, prefix);
  }
  if (items.size() <= kMostItems) return;
  boost::unordered_flat_map<const OutlineItem*, size_t> index;
  for (size_t i = 0; i < items.size(); ++i) index.emplace(items[i], i);
  auto index_of = [&](const Apply& node) {
    OutlineItem* item = item_of(node);
    while (item && item->outer != outer) item = item->outer;
    auto found = index.find(item);
    return found == index.end() ? items.size() : found->second;
  };
  // How many items have a value that is read behind a cut.
  std::vector<size_t> last(items.size());
  std::iota(last.begin(), last.end(), size_t{0});
  const size_t first = position_.find(items.front()->node)->second;
  const size_t behind = position_.find(items.back()->node)->second + items.back()->num_nodes;
  for (const Apply* node : nodes_.subspan(first, behind - first)) {
    const size_t user = index_of(*node);
    if (user == items.size()) continue;
    for (const Use& use : node->operands()) {
      const Apply* operand = use.node ? use.node->as_apply() : nullptr;
      const size_t made = operand ? index_of(*operand) : items.size();
      if (made < user) last[made] = std::max(last[made], user);
    }
  }
  std::vector<int64_t> crossing(items.size() + 1);
  for (size_t i = 0; i < items.size(); ++i) {
    ++crossing[i + 1];
    --crossing[last[i] + 1 > items.size() ? items.size() : last[i] + 1];
  }
  std::partial_sum(crossing.begin(), crossing.end(), crossing.begin());

  const size_t size = std::max(kItemsOfPart, (items.size() + kPartsOfLevel - 1) / kPartsOfLevel);
  std::vector<OutlineItem*> parts;
  for (size_t begin = 0; begin < items.size();) {
    size_t end = items.size();
    if (items.size() - begin > size + size / 2) {
      end = begin + size;
      for (size_t at = begin + size / 2; at <= begin + size; ++at) {
        if (crossing[at] <= crossing[end]) end = at;
      }
    }
    OutlineItem* part = make(OutlineItem::Kind::Part, outer);
    part->number = prefix.empty() ? fmt::format("{}", next_part_++) : fmt::format("{}.{}", prefix, parts.size() + 1);
    part->node = items[begin]->node;
    part->items.assign(items.begin() + static_cast<std::ptrdiff_t>(begin),
                       items.begin() + static_cast<std::ptrdiff_t>(end));
    part->num_nodes = 0;
    for (OutlineItem* item : part->items) {
      item->outer = part;
      part->num_nodes += item->num_nodes;
    }
    parts.push_back(part);
    begin = end;
  }
  items = std::move(parts);
  for (OutlineItem* part : items) split(part->items, part, part->number);
}

}  // namespace anfora::ir
