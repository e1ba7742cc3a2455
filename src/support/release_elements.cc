#include "support/release_elements.h"

#include <atomic>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace anfora {

void release_elements(Tensor& tensor) {
  constexpr size_t kAtOnce = 8 << 20;
  static std::atomic<size_t> freed = 0;
  const size_t bytes = tensor.bytes();
  tensor = Tensor::view(tensor.dtype(), Shape(tensor.shape()), nullptr, nullptr);
  if (freed.fetch_add(bytes) + bytes < kAtOnce) return;
  freed = 0;
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

void release_free_memory() {
#ifdef __GLIBC__
  constexpr size_t kMuch = 1 << 20;
  if (mallinfo2().fordblks >= kMuch) malloc_trim(0);
#endif
}

}  // namespace anfora
