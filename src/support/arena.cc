#include "support/arena.h"

#include <algorithm>

namespace anfora {

void* Arena::allocate_slow(size_t bytes, size_t alignment) {
  size_t block = std::max(next_block_, bytes + alignment);
  next_block_ = std::min(next_block_ * 2, kLargestBlock);
  AlignedBytes memory = allocate_bytes(block);
  if (!memory) throw std::bad_alloc();
  blocks_.push_back(std::move(memory));
  cursor_ = reinterpret_cast<uintptr_t>(blocks_.back().get());
  end_ = cursor_ + block;
  return allocate(bytes, alignment);
}

}  // namespace anfora
