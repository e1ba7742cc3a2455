// A bump allocator: objects live as long as the arena, and trivially destructible ones only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/aligned_bytes.h"

namespace anfora {

class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  void* allocate(size_t bytes, size_t alignment = alignof(std::max_align_t)) {
    uintptr_t at = (cursor_ + alignment - 1) & ~(uintptr_t{alignment} - 1);
    if (at + bytes > end_) return allocate_slow(bytes, alignment);
    cursor_ = at + bytes;
    used_ += bytes;
    return reinterpret_cast<void*>(at);
  }

  template <class T, class... Args>
  T* make(Args&&... args) {
    static_assert(std::is_trivially_destructible_v<T>);
    return new (allocate(sizeof(T), alignof(T))) T(std::forward<Args>(args)...);
  }

  template <class T>
  std::span<T> copy(std::span<const T> items) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (items.empty()) return {};
    T* to = static_cast<T*>(allocate(items.size_bytes(), alignof(T)));
    std::uninitialized_copy(items.begin(), items.end(), to);
    return {to, items.size()};
  }

  std::string_view copy(std::string_view text) {
    auto chars = copy(std::span<const char>(text.data(), text.size()));
    return {chars.data(), chars.size()};
  }

  size_t used_bytes() const { return used_; }

 private:
  void* allocate_slow(size_t bytes, size_t alignment);

  static constexpr size_t kFirstBlock = size_t{16} << 10;
  static constexpr size_t kLargestBlock = size_t{4} << 20;  // from there on, blocks lie on huge pages
  uintptr_t cursor_ = 0, end_ = 0;
  size_t used_ = 0, next_block_ = kFirstBlock;
  std::vector<AlignedBytes> blocks_;
};

}  // namespace anfora
