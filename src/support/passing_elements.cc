#include "support/passing_elements.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "support/deferred_elements.h"
#include "support/mapped_file.h"

namespace anfora {
namespace {

// The largest block that was given back.
class SpareBlock {
 public:
  Tensor take(size_t bytes) {
    Tensor block;
    {
      std::lock_guard lock(mutex_);
      block = std::exchange(block_, Tensor());
    }
    if (block.bytes() >= bytes) return block;
    block = Tensor();  // before there is another
    return Tensor::allocate(DType::U8, Shape{static_cast<int64_t>(bytes)});
  }
  void give_back(Tensor block) {
    std::lock_guard lock(mutex_);
    if (scopes_ > 0 && block.bytes() > block_.bytes()) block_ = std::move(block);
  }
  void begin_reuse() {
    std::lock_guard lock(mutex_);
    ++scopes_;
  }
  void end_reuse() {
    std::lock_guard lock(mutex_);
    if (--scopes_ == 0) block_ = Tensor();
  }

 private:
  std::mutex mutex_;
  int scopes_ = 0;
  Tensor block_;  // of bytes
};

SpareBlock& spare_block() {
  static SpareBlock spare;
  return spare;
}

}  // namespace

PassingElements::Reuse::Reuse() { spare_block().begin_reuse(); }
PassingElements::Reuse::~Reuse() { spare_block().end_reuse(); }

PassingElements::PassingElements(const Tensor& tensor) : PassingElements(tensor, 0, tensor.rank() == 0 ? 1 : tensor.dim(0)) {}

PassingElements::PassingElements(const Tensor& tensor, int64_t first, int64_t count) {
  const size_t rows = tensor.rank() == 0 ? 1 : static_cast<size_t>(std::max<int64_t>(tensor.dim(0), 1)), row = tensor.bytes() / rows;
  const size_t begin = row * static_cast<size_t>(first);
  bytes_ = row * static_cast<size_t>(count);
  if (DeferredElements::are_missing(tensor)) {
    computed_ = spare_block().take(bytes_);
    DeferredElements::copy_bytes(tensor, begin, bytes_, static_cast<std::byte*>(computed_.raw()));
    elements_ = computed_.raw();
  } else if (const void* all = tensor.raw()) {
    elements_ = static_cast<const std::byte*>(all) + begin;
  }
}

PassingElements::~PassingElements() {
  if (computed_.defined()) {
    spare_block().give_back(std::move(computed_));
  } else if (elements_) {
    drop_mapped_pages(elements_, bytes_);
  }
}

}  // namespace anfora
