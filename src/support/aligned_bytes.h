// Memory for tensors: aligned to a cache line, and large blocks on huge pages where the system has them. Walking through
// 25 MB on pages of 4 KiB takes three times as long, since the processor prefetches within a page only and looks each
// page up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace anfora {

inline constexpr size_t kHugePage = size_t{2} << 20;

struct FreeBytes {
  void operator()(std::byte* memory) const;
};
using AlignedBytes = std::unique_ptr<std::byte, FreeBytes>;

// Uninitialized, at least one byte, 64-byte aligned; null when there is not so much.
AlignedBytes allocate_bytes(size_t bytes);

// Huge pages are given out when they are first written to, which takes a tenth of a millisecond. Where a virtual machine's host has taken free memory back, it
// takes forty times as long: the host returns it small page by small page. Those that the system has in small pieces itself it returns at once, as
// hosts are told of whole huge pages only (Linux: free page reporting).
//
// So this writes a byte to a huge page of allocate_bytes() that is new. If that takes long, what lies behind it, up to `end`, comes in small pages.
void touch_huge_page(std::byte* page, std::byte* end);
// Memory that may have come so, and has been written to, is merged into huge pages by the system when it finds time. Does nothing for less than a huge page.
void let_pages_be_merged(std::byte* memory, size_t bytes);

// For containers that have an element for each node of a model.
template <class T>
struct AlignedAllocator {
  using value_type = T;
  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) {}

  T* allocate(size_t count) {
    AlignedBytes memory = count <= SIZE_MAX / sizeof(T) ? allocate_bytes(count * sizeof(T)) : nullptr;
    if (!memory) throw std::bad_alloc();
    return reinterpret_cast<T*>(memory.release());
  }
  void deallocate(T* memory, size_t) { FreeBytes()(reinterpret_cast<std::byte*>(memory)); }
  bool operator==(const AlignedAllocator&) const { return true; }
};
template <class T>
using LargeVector = std::vector<T, AlignedAllocator<T>>;

}  // namespace anfora
