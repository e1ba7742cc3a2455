// An index over an array that its owner keeps: from the hash of a key to the position of the item that has the key.
//
//     HashIndex index;
//     auto [at, is_new] = index.insert(hash, items.size(), [&](uint32_t i) { return items[i].key == key; });
//     if (is_new) items.push_back({key, …});
//
// A lookup in a table that outgrows the caches costs the cache line that it misses, and little else. So there is only
// one: open addressing with linear probing, in slots of eight bytes, half of them hash and half position, so that items
// are looked at only where the hashes agree. Who knows a key some time before looking it up can ask for the line with
// prefetch(). Slots lie in the order of their hashes, so that growing is one pass over the old table and the new one,
// which needs neither items nor hashes again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "support/aligned_bytes.h"

namespace anfora {

class HashIndex {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // For that many items without growing.
  void reserve(size_t items);

  void prefetch(uint64_t hash) const {
    if (slots_) __builtin_prefetch(slots_ + home(hash));
  }

  // The position for which equals(position) holds, among those entered with that hash; kNone when there is none.
  template <class Equals>
  uint32_t find(uint64_t hash, Equals&& equals) const {
    if (!slots_) return kNone;
    return position(*probe(hash, equals));
  }

  // The same; where there is none, enters `position`.
  template <class Equals>
  std::pair<uint32_t, bool> insert(uint64_t hash, size_t position, Equals&& equals) {
    if (2 * (size_ + 1) > capacity()) grow();
    uint64_t* slot = probe(hash, equals);
    if (*slot) return {this->position(*slot), false};
    *slot = (hash & kHashMask) | (position + 1);
    ++size_;
    return {static_cast<uint32_t>(position), true};
  }

  size_t size() const { return size_; }

 private:
  // A slot: the upper half of the hash, and the position plus one; empty: 0.
  static constexpr uint64_t kHashMask = ~uint64_t{UINT32_MAX};
  static constexpr int kSmallest = 4, kLargest = 32;  // logarithms of the capacity

  static uint32_t position(uint64_t slot) { return static_cast<uint32_t>(slot) - 1; }
  size_t capacity() const { return slots_ ? size_t{1} << log_capacity_ : 0; }
  size_t home(uint64_t hash) const { return hash >> (64 - log_capacity_); }

  template <class Equals>
  uint64_t* probe(uint64_t hash, Equals&& equals) const {
    for (size_t i = home(hash);; i = (i + 1) & (capacity() - 1)) {
      uint64_t& slot = slots_[i];
      if (slot == 0 || ((slot ^ hash) <= UINT32_MAX && equals(position(slot)))) return &slot;
    }
  }

  void grow() { resize(slots_ ? log_capacity_ + 1 : kSmallest); }
  void resize(int log_capacity);

  AlignedBytes memory_;
  uint64_t* slots_ = nullptr;
  int log_capacity_ = 0;
  size_t size_ = 0;
};

}  // namespace anfora
