// Memory for the body of a parallel loop, where each thread needs some of its own, and for containers that grow. Each thread has a stack of such
// blocks, in memory that it mostly had before: what the last kernel wrote to is in its cache. There is memory for as many threads as there are, so that a
// thread that comes late, as on a busy machine, finds some. Outside of loops a kernel has its workspace.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

namespace anfora {

// At least so many bytes, uninitialized, aligned to 64. Throws ResourceExhausted.
void* take_scratch(size_t bytes);
void return_scratch(void* memory);
// The same for part i of a loop's work, by whoever does it, taken ahead of the loop: mostly what part i had before, and so its thread.
void* take_scratch_of_part(size_t part, size_t bytes);
void return_scratch_of_part(size_t part, void* memory);

template <class T>
class Scratch {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  // Uninitialized.
  explicit Scratch(size_t size)
      : memory_(size == 0 ? nullptr : static_cast<T*>(take_scratch(size * sizeof(T)))), size_(size) {}
  Scratch(size_t size, T value) : Scratch(size) { std::fill(begin(), end(), value); }

  size_t size() const { return size_; }
  T* data() { return memory_.get(); }
  const T* data() const { return memory_.get(); }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }

 private:
  struct Return {
    void operator()(T* memory) const { return_scratch(memory); }
  };
  std::unique_ptr<T, Return> memory_;
  size_t size_;
};

// Uninitialized elements for a part of a loop's work.
template <class T>
class PartScratch {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  PartScratch(size_t part, size_t size) : memory_(static_cast<T*>(take_scratch_of_part(part, size * sizeof(T))), Return{part}) {}
  T* data() const { return memory_.get(); }

 private:
  struct Return {
    size_t part;
    void operator()(T* memory) const { return_scratch_of_part(part, memory); }
  };
  std::unique_ptr<T, Return> memory_;
};

// The allocator of containers that grow.
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
