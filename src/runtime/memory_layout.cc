#include "runtime/memory_layout.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <utility>

namespace anfora::runtime {
namespace {

// Above this many buffers only the O(n log n) heuristic runs.
constexpr size_t kMostBuffersBySize = 8192;
// What improving that result may cost: a few milliseconds each. Most moves end early.
constexpr size_t kMostComparisons = 4'000'000, kMostComparisonsOfMoves = 16'000'000;
// Above this a size is a mistake of the model rather than memory to plan for; such a buffer is left to the kernel,
// whose allocation fails with a clear error.
constexpr int64_t kLargestBuffer = int64_t{1} << 46;

struct Item {
  size_t buffer;
  uint32_t first, last;
  int64_t bytes;  // rounded up to the alignment
  int64_t offset = MemoryLayout::kNowhere;
};

bool overlap_in_time(const Item& a, const Item& b) { return a.first <= b.last && b.first <= a.last; }

int64_t largest_live_sum(const std::vector<Item>& items) {
  std::vector<std::pair<uint64_t, int64_t>> changes;  // (time, change); at 2t values begin, at 2t+1 they end
  for (const Item& item : items) {
    changes.emplace_back(2 * uint64_t{item.first}, item.bytes);
    changes.emplace_back(2 * uint64_t{item.last} + 1, -item.bytes);
  }
  std::ranges::sort(changes);
  int64_t live = 0, largest = 0;
  for (const auto& change : changes) largest = std::max(largest, live += change.second);
  return largest;
}

// The free holes of the arena, by offset and by size. Memory behind the last hole is unlimited.
class FreeHoles {
 public:
  int64_t end() const { return end_; }

  int64_t take(int64_t bytes) {
    auto best = by_size_.lower_bound({bytes, 0});
    if (best == by_size_.end()) {
      // The hole at the end, if there is one, grows; else the arena does.
      auto last = holes_.empty() ? holes_.end() : std::prev(holes_.end());
      bool at_end = last != holes_.end() && last->first + last->second == end_;
      int64_t offset = at_end ? last->first : end_;
      if (at_end) remove(last);
      end_ = offset + bytes;
      return offset;
    }
    auto hole = holes_.find(best->second);
    auto [offset, size] = *hole;
    remove(hole);
    if (size > bytes) insert(offset + bytes, size - bytes);
    return offset;
  }

  void give_back(int64_t offset, int64_t bytes) {
    auto next = holes_.lower_bound(offset);
    if (next != holes_.end() && next->first == offset + bytes) {
      bytes += next->second;
      auto merged = next++;
      remove(merged);
    }
    if (next != holes_.begin()) {
      auto previous = std::prev(next);
      if (previous->first + previous->second == offset) {
        offset = previous->first;
        bytes += previous->second;
        remove(previous);
      }
    }
    insert(offset, bytes);
  }

 private:
  using Holes = std::map<int64_t, int64_t>;
  void insert(int64_t offset, int64_t bytes) {
    holes_.emplace(offset, bytes);
    by_size_.emplace(bytes, offset);
  }
  void remove(Holes::iterator hole) {
    by_size_.erase({hole->second, hole->first});
    holes_.erase(hole);
  }
  Holes holes_;  // offset → size
  std::set<std::pair<int64_t, int64_t>> by_size_;
  int64_t end_ = 0;
};

// Each places all items and returns the size of the arena.
int64_t place_in_order_of_time(std::vector<Item>& items) {
  std::ranges::sort(items, {}, [](const Item& item) { return std::pair(item.first, item.buffer); });
  auto ends_later = [&](size_t a, size_t b) { return std::pair(items[a].last, a) > std::pair(items[b].last, b); };
  std::vector<size_t> live;  // a heap, the first to end on top
  FreeHoles holes;
  for (size_t i = 0; i < items.size(); ++i) {
    while (!live.empty() && items[live.front()].last < items[i].first) {
      std::ranges::pop_heap(live, ends_later);
      holes.give_back(items[live.back()].offset, items[live.back()].bytes);
      live.pop_back();
    }
    items[i].offset = holes.take(items[i].bytes);
    live.push_back(i);
    std::ranges::push_heap(live, ends_later);
  }
  return holes.end();
}

// More than `most`: no layout, as it would be larger than that.
int64_t place_in_order(std::vector<Item>& items, int64_t most = std::numeric_limits<int64_t>::max()) {
  std::vector<const Item*> placed;  // by offset
  int64_t end = 0;
  for (Item& item : items) {
    int64_t hole = 0;  // the end of what lies below
    int64_t best = MemoryLayout::kNowhere, best_size = 0;
    for (const Item* other : placed) {
      if (!overlap_in_time(item, *other)) continue;
      int64_t size = other->offset - hole;
      if (size >= item.bytes && (best == MemoryLayout::kNowhere || size < best_size)) {
        best = hole;
        best_size = size;
      }
      hole = std::max(hole, other->offset + other->bytes);
    }
    item.offset = best == MemoryLayout::kNowhere ? hole : best;
    end = std::max(end, item.offset + item.bytes);
    if (end > most) return end;
    placed.insert(std::ranges::upper_bound(placed, item.offset, {}, &Item::offset), &item);
  }
  return end;
}

// The largest first; or those that take the most, as bytes times instructions.
int64_t place_in_order_of_size(std::vector<Item>& items, bool times_duration) {
  auto weight = [times_duration](const Item& item) { return item.bytes * (times_duration ? int64_t{item.last} - item.first + 1 : 1); };
  std::ranges::sort(items, [&](const Item& a, const Item& b) {
    return std::pair(-weight(a), a.buffer) < std::pair(-weight(b), b.buffer);
  });
  return place_in_order(items);
}

// Places again and again, with those first that reached the end of the arena before. Stops at the bound.
int64_t place_by_complaint(std::vector<Item>& items, int64_t bytes, int64_t lower_bound) {
  const size_t rounds = kMostComparisons / (items.size() * items.size());
  std::vector<Item> next = items;
  int64_t end = bytes;
  for (size_t round = 0; round < rounds && bytes > lower_bound; ++round) {
    std::ranges::stable_partition(next, [end](const Item& item) { return item.offset + item.bytes == end; });
    end = place_in_order(next);
    if (end >= bytes) continue;
    bytes = end;
    items = next;
  }
  return bytes;
}

// Moves one item after another to another place of the order, chance choosing both, and keeps what makes the arena no larger. Stops at the bound.
int64_t place_by_moves(std::vector<Item>& items, int64_t bytes, int64_t lower_bound) {
  const size_t count = items.size(), rounds = kMostComparisonsOfMoves / (count * count);
  std::minstd_rand random;  // the same in every run
  std::vector<Item> next;
  for (size_t round = 0; round < rounds && bytes > lower_bound; ++round) {
    next = items;
    const auto from = next.begin() + static_cast<std::ptrdiff_t>(random() % count), to = next.begin() + static_cast<std::ptrdiff_t>(random() % count);
    from < to ? std::rotate(from, from + 1, to + 1) : std::rotate(to, from, from + 1);
    const int64_t end = place_in_order(next, bytes);
    if (end > bytes) continue;
    bytes = end;
    items.swap(next);
  }
  return bytes;
}

}  // namespace

int64_t aligned(int64_t bytes) { return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment; }

void place_carried(std::span<const CarriedValue> carried, std::span<const int64_t> symbols, MemoryLayout& layout) {
  for (const CarriedValue& value : carried) {
    const std::optional<int64_t> bytes = value.bytes.evaluate(symbols);
    MemoryLayout::Place& place = layout.carried.emplace_back();
    if (!bytes || *bytes < 0 || *bytes > kLargestBuffer) continue;
    place = {layout.carried_bytes, *bytes};
    layout.carried_bytes += value.places * aligned(*bytes);
  }
}

MemoryLayout make_layout(std::span<const Buffer> buffers, std::span<const int64_t> symbols,
                         std::span<const int64_t> at_least) {
  MemoryLayout layout;
  layout.places.resize(buffers.size());
  std::vector<Item> items;
  for (size_t i = 0; i < buffers.size(); ++i) {
    std::optional<int64_t> bytes = buffers[i].bytes.evaluate(symbols);
    if (bytes && !at_least.empty()) bytes = std::max(*bytes, at_least[i]);
    if (!bytes || *bytes < 0 || *bytes > kLargestBuffer) continue;
    layout.places[i] = {0, *bytes};
    if (*bytes > 0) items.push_back({i, buffers[i].first, buffers[i].last, aligned(*bytes)});
  }
  layout.lower_bound = largest_live_sum(items);
  layout.bytes = place_in_order_of_time(items);
  if (layout.bytes > layout.lower_bound && items.size() <= kMostBuffersBySize) {
    std::vector<Item> by_weight = items;
    int64_t bytes = place_in_order_of_size(by_weight, false);
    if (bytes > layout.lower_bound) {
      std::vector<Item> by_area = items;
      const int64_t bytes_by_area = place_in_order_of_size(by_area, true);
      if (bytes_by_area < bytes) bytes = bytes_by_area, by_weight = std::move(by_area);
    }
    bytes = place_by_complaint(by_weight, bytes, layout.lower_bound);
    bytes = place_by_moves(by_weight, bytes, layout.lower_bound);
    if (bytes < layout.bytes) {
      layout.bytes = bytes;
      items = std::move(by_weight);
    }
  }
  for (const Item& item : items) layout.places[item.buffer].offset = item.offset;
  return layout;
}

}  // namespace anfora::runtime
