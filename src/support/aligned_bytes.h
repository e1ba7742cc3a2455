// Memory for tensors: aligned to a cache line, and large blocks on huge pages where the system has them. Walking through
// 25 MB on pages of 4 KiB takes three times as long, since the processor prefetches within a page only and looks each
// page up.
#pragma once

#include <cstddef>
#include <memory>

namespace anfora {

struct FreeBytes {
  void operator()(std::byte* memory) const;
};
using AlignedBytes = std::unique_ptr<std::byte, FreeBytes>;

// Uninitialized, at least one byte, 64-byte aligned; null when there is not so much.
AlignedBytes allocate_bytes(size_t bytes);

}  // namespace anfora
