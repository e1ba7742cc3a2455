#include "support/lasting_memory.h"

#include <atomic>
#include <mutex>

#include "support/aligned_bytes.h"

namespace anfora {
namespace {

constexpr size_t kAlignment = 64;  // as of all tensors

}  // namespace

struct LastingMemory::Region {
  AlignedBytes bytes;
  size_t size = 0;
  std::atomic<size_t> used = 0;

  static std::mutex mutex;
  static std::shared_ptr<Region> current;
};

std::mutex LastingMemory::Region::mutex;
std::shared_ptr<LastingMemory::Region> LastingMemory::Region::current;

LastingMemory::LastingMemory(size_t bytes) {
  const size_t size = bytes / kHugePage * kHugePage;
  if (size == 0) return;
  region_ = std::make_shared<Region>();
  region_->bytes = allocate_bytes(size);
  if (!region_->bytes) return;
  region_->size = size;
  std::lock_guard lock(Region::mutex);
  Region::current = region_;
}

LastingMemory::~LastingMemory() {
  std::lock_guard lock(Region::mutex);
  if (Region::current == region_) Region::current = nullptr;
}

Tensor LastingMemory::allocate(DType dtype, std::span<const int64_t> shape) {
  std::shared_ptr<Region> region;
  {
    std::lock_guard lock(Region::mutex);
    region = Region::current;
  }
  const Tensor described = Tensor::view(dtype, shape, nullptr, nullptr);
  const size_t size = (described.bytes() + kAlignment - 1) / kAlignment * kAlignment;
  if (!region || size > region->size) return Tensor::allocate(dtype, shape);
  size_t begin = region->used.load();
  do {
    if (begin + size > region->size) return Tensor::allocate(dtype, shape);
  } while (!region->used.compare_exchange_weak(begin, begin + size));
  std::byte* place = region->bytes.get() + begin;
  return Tensor::view(dtype, shape, place, std::shared_ptr<void>(std::move(region), place));
}

}  // namespace anfora
