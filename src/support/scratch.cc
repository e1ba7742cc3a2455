#include "support/scratch.h"

#include <array>

namespace anfora {

Tensor scratch_bytes(size_t bytes) {
  // For the alignment see parallel.cc.
  alignas(16) static thread_local BlockPool blocks;
  return blocks.allocate(DType::U8, std::array{static_cast<int64_t>(bytes)});
}

}  // namespace anfora
