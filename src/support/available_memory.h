// Whether there is memory ahead of a library that cannot do without: it ends the process, or crashes, where it gets none.
#pragma once

#include <cstddef>
#include <cstdlib>

namespace anfora {

// Whether so many bytes could be allocated now. Nothing of them is touched.
inline bool can_allocate(size_t bytes) {
  void* const memory = std::malloc(bytes);
  std::free(memory);
  return memory != nullptr;
}

}  // namespace anfora
