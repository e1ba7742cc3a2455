#include "support/hash_index.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "anfora/error.h"

namespace anfora {

void HashIndex::reserve(size_t items) {
  int log_capacity = kSmallest;
  while (log_capacity < kLargest && (size_t{1} << log_capacity) < 2 * items) ++log_capacity;
  if (log_capacity > log_capacity_) resize(log_capacity);
}

void HashIndex::resize(int log_capacity) {
  if (log_capacity > kLargest) throw Error(ErrorCode::ResourceExhausted, "a table has more than 2^31 entries");
  size_t old_capacity = capacity(), new_capacity = size_t{1} << log_capacity;
  AlignedBytes memory = allocate_bytes(new_capacity * sizeof(uint64_t));
  if (!memory) throw std::bad_alloc();
  std::memset(memory.get(), 0, new_capacity * sizeof(uint64_t));
  const uint64_t* old_slots = slots_;
  slots_ = reinterpret_cast<uint64_t*>(memory.get());
  log_capacity_ = log_capacity;
  for (size_t i = 0; i < old_capacity; ++i) {
    if (old_slots[i]) *probe(old_slots[i], [](uint32_t) { return false; }) = old_slots[i];
  }
  memory_ = std::move(memory);
}

}  // namespace anfora
