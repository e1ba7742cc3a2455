// Memory of tensors that are made together and last equally long, as the packed weights of a model: side by side in huge pages, where the system has them.
// It takes two microseconds to give out a small page, which is longer than a kernel needs to pack what fits in there.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "anfora/tensor.h"

namespace anfora {

class LastingMemory {
 public:
  // While one lives, allocate() takes from a region of `bytes`, rounded down to huge pages. Of several that live at a time, one is taken from.
  // The region is freed with its last tensor, as a whole.
  explicit LastingMemory(size_t bytes);
  ~LastingMemory();
  LastingMemory(const LastingMemory&) = delete;

  // As Tensor::allocate(), which it does where there is no region, or no room in it. Not of strings. By any thread.
  static Tensor allocate(DType dtype, std::span<const int64_t> shape);

 private:
  struct Region;
  std::shared_ptr<Region> region_;
};

}  // namespace anfora
