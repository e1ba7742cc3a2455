#pragma once

#include "anfora/tensor.h"

namespace anfora {

// Elements of a tensor for a reader that needs them once, as a kernel does that packs weights. Deferred ones are computed for it alone, and
// pages of a mapped file are given back after it.
class PassingElements {
 public:
  explicit PassingElements(const Tensor& tensor);
  // Rows of the first dimension, which lie one after the other.
  PassingElements(const Tensor& tensor, int64_t first, int64_t count);
  ~PassingElements();
  PassingElements(const PassingElements&) = delete;

  // Null: the tensor has none.
  const void* raw() const { return elements_; }
  template <class T>
  const T* data() const {
    return static_cast<const T*>(elements_);
  }

  // While one lives, the memory of the largest computed elements is kept for the next ones: the system clears fresh memory, which takes
  // longer than most elements do.
  class Reuse {
   public:
    Reuse();
    ~Reuse();
    Reuse(const Reuse&) = delete;
  };

 private:
  Tensor computed_;  // bytes; none where the tensor has its elements
  const void* elements_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace anfora
