#pragma once

#include <functional>
#include <mutex>

#include "anfora/tensor.h"

namespace anfora {

// Elements of a tensor that are computed when raw() or data() first asks for them, by whatever thread, once for all copies of the handle.
// Folded weights are most of a model, and often nobody reads them but the kernel that packs them: they need no memory until then, and little
// for that (passing_elements.h).
class DeferredElements {
 public:
  // Writes rows [first, first + count) of the first dimension to `place`. Called for any rows, in any order, also more than once.
  using ComputeRows = std::function<void(int64_t first, int64_t count, std::byte* place)>;

  // Of rank 1 or more; not of strings, nor of elements that share a byte.
  static Tensor tensor(DType dtype, std::span<const int64_t> shape, ComputeRows compute);

  // Are the elements of a tensor not in memory yet?
  static bool are_missing(const Tensor& tensor);
  // What tells its elements from those of other tensors, and is never followed; null: there are none, or they were released.
  static const void* identity(const Tensor& tensor) { return tensor.is_deferred_ ? tensor.owner_.get() : tensor.data_; }
  // Copies `count` bytes of any tensor from `begin` on, and keeps nothing of what it computes for that.
  static void copy_bytes(const Tensor& tensor, size_t begin, size_t count, std::byte* place);
  // Computes the elements, so that this handle need not test whether they are there.
  static void settle(Tensor& tensor);

 private:
  friend class Tensor;

  DeferredElements(Tensor elements, ComputeRows compute);
  void* computed();
  void copy(size_t begin, size_t count, std::byte* place);

  std::mutex mutex_;
  ComputeRows compute_;  // null: they are there
  Tensor elements_;      // of the tensor's type; without memory at first
};

}  // namespace anfora
