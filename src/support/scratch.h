// Memory of the calling thread: blocks that later users take again, so that they cost an allocation the first few times only. Arrays for
// the body of a parallel loop, where each thread has its own, and containers that grow. Outside of loops a kernel has its workspace.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "support/block_pool.h"

namespace anfora {

// Bytes that may not outlive the scope they are made in, nor be handed to another thread.
Tensor scratch_bytes(size_t bytes);

template <class T>
class Scratch {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  // Uninitialized.
  explicit Scratch(size_t size)
      : memory_(scratch_bytes(size * sizeof(T))), size_(size) {}
  Scratch(size_t size, T value) : Scratch(size) { std::fill(begin(), end(), value); }
  Scratch(Scratch&&) = default;

  size_t size() const { return size_; }
  T* data() { return static_cast<T*>(memory_.raw()); }
  const T* data() const { return static_cast<const T*>(memory_.raw()); }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }

 private:
  Tensor memory_;
  size_t size_;
};

// The allocator of containers that grow: as for scratch_bytes().
void* take_scratch(size_t bytes);
void return_scratch(void* memory);

template <class T>
struct ScratchAllocator {
  using value_type = T;
  ScratchAllocator() = default;
  template <class U>
  ScratchAllocator(const ScratchAllocator<U>&) {}

  T* allocate(size_t count) { return static_cast<T*>(take_scratch(count * sizeof(T))); }
  void deallocate(T* memory, size_t) { return_scratch(memory); }
  bool operator==(const ScratchAllocator&) const { return true; }
};

template <class T>
using ScratchVector = std::vector<T, ScratchAllocator<T>>;

}  // namespace anfora
