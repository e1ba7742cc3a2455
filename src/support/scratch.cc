#include "support/scratch.h"

#include <array>
#include <cstdint>
#include <new>
#include <utility>

namespace anfora {
namespace {

// The handle of a block that a container has lies at its start.
constexpr size_t kHandleBytes = 128;
static_assert(sizeof(Tensor) <= kHandleBytes);

}  // namespace

Tensor scratch_bytes(size_t bytes) {
  // For the alignment see parallel.cc.
  alignas(16) static thread_local BlockPool blocks;
  return blocks.allocate(DType::U8, std::array{static_cast<int64_t>(bytes)});
}

void* take_scratch(size_t bytes) {
  if (bytes > SIZE_MAX / 2) throw std::bad_array_new_length();
  Tensor block = scratch_bytes(bytes + kHandleBytes);
  auto* memory = static_cast<std::byte*>(block.raw());
  new (memory) Tensor(std::move(block));
  return memory + kHandleBytes;
}

void return_scratch(void* memory) {
  auto* handle = reinterpret_cast<Tensor*>(static_cast<std::byte*>(memory) - kHandleBytes);
  const Tensor last = std::move(*handle);
  handle->~Tensor();
}

}  // namespace anfora
