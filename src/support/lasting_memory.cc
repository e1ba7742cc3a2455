#include "support/lasting_memory.h"

#include <mutex>

#include "support/aligned_bytes.h"

namespace anfora {
namespace {

constexpr size_t kAlignment = 64;  // as of all tensors

}  // namespace

struct LastingMemory::Region {
  AlignedBytes bytes;
  size_t size = 0;
  size_t used = 0;

  // The next bytes. One of the huge pages that begin in them is written to: they are given out over a while, in which the system may run out of fast ones.
  std::byte* take(size_t count) {
    std::byte* const place = bytes.get() + used;
    const size_t next_page = (used + kHugePage - 1) / kHugePage * kHugePage;
    used += count;
    if (next_page > 0 && next_page < used) touch_huge_page(bytes.get() + next_page, bytes.get() + size);
    return place;
  }

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
  if (region_ && region_->bytes) let_pages_be_merged(region_->bytes.get(), region_->size);
}

Tensor LastingMemory::allocate(DType dtype, std::span<const int64_t> shape) {
  const Tensor described = Tensor::view(dtype, shape, nullptr, nullptr);
  const size_t size = (described.bytes() + kAlignment - 1) / kAlignment * kAlignment;
  std::unique_lock lock(Region::mutex);
  std::shared_ptr<Region> region = Region::current;
  if (!region || size > region->size - region->used) {
    lock.unlock();
    return Tensor::allocate(dtype, shape);
  }
  std::byte* const place = region->take(size);
  return Tensor::view(dtype, shape, place, std::shared_ptr<void>(std::move(region), place));
}

}  // namespace anfora
