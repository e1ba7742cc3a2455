#include "support/scratch.h"

namespace anfora {

Tensor scratch_tensor(DType dtype, std::span<const int64_t> shape) {
  // For the alignment see parallel.cc.
  alignas(16) static thread_local BlockPool blocks;
  return blocks.allocate(dtype, shape);
}

}  // namespace anfora
