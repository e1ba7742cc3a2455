#include "support/block_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <mutex>
#include <utility>

#include "anfora/error.h"
#include "support/aligned_bytes.h"

namespace anfora {
namespace {

// What the standard library needs for a reference count with a deleter and an allocator of one pointer each; checked below.
constexpr size_t kReferenceCountBytes = 64;

constexpr size_t kSmallestBlock = 64;
// From here on the system clears pages for longer than a lock takes.
constexpr size_t kLargeBlock = size_t{256} << 10;

// A tensor that grows a little each time, such as a cache of keys and values, is to find a block that still holds it: capacities
// are the next eighth of a power of two.
size_t capacity_for(size_t bytes) {
  if (bytes <= kSmallestBlock) return kSmallestBlock;
  const size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}
// Capacities in order: 0 for kSmallestBlock.
size_t index_of_capacity(size_t capacity) {
  const size_t power = std::bit_floor(capacity);
  return 8 * static_cast<size_t>(std::countr_zero(power) - std::countr_zero(kSmallestBlock)) + (capacity - power) / (power / 8);
}

}  // namespace

struct BlockPool::Block {
  BlockPool* pool;  // null: it is its tensor's
  size_t capacity;
  size_t number;  // in blocks_
  AlignedBytes memory;
  Block* next = nullptr;  // that is free, and has the same capacity
  std::shared_ptr<Returns> returns{};  // of the pool that gave it away, if it is large
  alignas(std::max_align_t) std::byte reference_count[kReferenceCountBytes] = {};
};

// Blocks that were given away, and that nobody has any more.
class BlockPool::Returns {
 public:
  // Deletes the block, or keeps it for the pool.
  void put(std::unique_ptr<Block> block) {
    std::lock_guard lock(mutex_);
    if (bytes_ + block->capacity > most_bytes_) return;
    bytes_ += block->capacity;
    blocks_.push_back(std::move(block));
  }
  // The smallest that holds so much, and is no larger than `most`; null: none.
  std::unique_ptr<Block> take(size_t bytes, size_t most) {
    std::lock_guard lock(mutex_);
    auto found = blocks_.end();
    for (auto at = blocks_.begin(); at != blocks_.end(); ++at) {
      const size_t capacity = (*at)->capacity;
      if (capacity >= bytes && capacity <= most && (found == blocks_.end() || capacity < (*found)->capacity)) found = at;
    }
    if (found == blocks_.end()) return nullptr;
    std::unique_ptr<Block> block = std::move(*found);
    blocks_.erase(found);
    bytes_ -= block->capacity;
    return block;
  }
  void keep_at_most(size_t bytes) {
    std::lock_guard lock(mutex_);
    for (most_bytes_ = bytes; bytes_ > most_bytes_; blocks_.pop_back()) bytes_ -= blocks_.back()->capacity;
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Block>> blocks_;
  size_t bytes_ = 0, most_bytes_ = 0;
};

// The "deleter" of a handle: the block is given back with its reference count, not before.
struct BlockPool::KeepBlock {
  Block* block;
  void operator()(void*) const {}
};

// The allocator of reference counts.
template <class T>
struct BlockPool::PlaceInBlock {
  using value_type = T;
  explicit PlaceInBlock(Block* block) : block(block) {}
  template <class U>
  PlaceInBlock(const PlaceInBlock<U>& other) : block(other.block) {}

  T* allocate(size_t) {
    static_assert(sizeof(T) <= kReferenceCountBytes);
    return reinterpret_cast<T*>(block->reference_count);
  }
  void deallocate(T*, size_t) {
    if (block->pool) return block->pool->give_back(block);
    std::unique_ptr<Block> own(block);
    if (const std::shared_ptr<Returns> returns = std::move(own->returns)) returns->put(std::move(own));
  }
  bool operator==(const PlaceInBlock&) const = default;

  Block* block;
};

BlockPool::BlockPool() : returns_(std::make_shared<Returns>()) {}
BlockPool::~BlockPool() {
  trim();
  returns_->keep_at_most(0);
  for (Block* block : blocks_) block->pool = nullptr;
}

Tensor BlockPool::allocate(DType dtype, std::span<const int64_t> shape) {
  if (dtype == DType::String) return Tensor::allocate(dtype, shape);
  const size_t count = static_cast<size_t>(element_count(shape)), bytes = count * element_bytes(dtype);
  if (count != 0 && bytes / count != element_bytes(dtype)) {
    throw Error(ErrorCode::ResourceExhausted, fmt::format("a tensor of shape {} is too large", to_string(shape)));
  }
  Block* block = take(bytes);
  void* memory = block->memory.get();
  return Tensor::view(dtype, shape, memory, std::shared_ptr<void>(memory, KeepBlock{block}, PlaceInBlock<std::byte>(block)));
}

void BlockPool::give_away(const Tensor& tensor) {
  const KeepBlock* kept = std::get_deleter<KeepBlock>(tensor.owner());
  if (!kept || !kept->block->pool) return;
  BlockPool& pool = *kept->block->pool;
  Block& block = *kept->block;
  pool.bytes_in_use_ -= block.capacity;
  pool.disown(block);
  if (block.capacity < kLargeBlock) return;
  block.returns = pool.returns_;
  pool.given_bytes_ += block.capacity;
}

void BlockPool::end_giving() {
  if (given_bytes_ > 0) returns_->keep_at_most(std::exchange(given_bytes_, 0));
}

void BlockPool::own(Block& block) {
  block.pool = this;
  block.number = blocks_.size();
  blocks_.push_back(&block);
  bytes_ += block.capacity;
}

void BlockPool::disown(Block& block) {
  Block* last = blocks_.back();
  blocks_[last->number = block.number] = last;
  blocks_.pop_back();
  bytes_ -= block.capacity;
  block.pool = nullptr;
}

BlockPool::Block* BlockPool::take(size_t bytes) {
  const size_t wanted = capacity_for(bytes);
  Block* block = nullptr;
  const size_t last = std::min(index_of_capacity(2 * wanted), largest_free_);
  for (size_t i = index_of_capacity(wanted); i <= last && !block; ++i) block = take_free(i);
  if (!block) {
    std::unique_ptr<Block> made = wanted >= kLargeBlock ? returns_->take(bytes, 2 * wanted) : nullptr;
    if (!made) {
      make_room(wanted);
      AlignedBytes memory = allocate_bytes(wanted);
      if (!memory) throw Error(ErrorCode::ResourceExhausted, fmt::format("cannot allocate {} bytes for a tensor", bytes));
      made = std::make_unique<Block>(nullptr, wanted, size_t{0}, std::move(memory));
    }
    own(*made);
    block = made.release();
  }
  bytes_in_use_ += block->capacity;
  most_in_use_ = std::max(most_in_use_, bytes_in_use_);
  return block;
}

void BlockPool::give_back(Block* block) {
  bytes_in_use_ -= block->capacity;
  const size_t i = index_of_capacity(block->capacity);
  block->next = std::exchange(free_[i], block);
  largest_free_ = std::max(largest_free_, i);
}

// Null: none is free.
BlockPool::Block* BlockPool::take_free(size_t of) {
  Block* block = free_[of];
  if (block) free_[of] = std::exchange(block->next, nullptr);
  return block;
}

void BlockPool::make_room(size_t bytes) {
  const size_t most = 2 * std::max(most_in_use_, bytes_in_use_ + bytes);
  while (bytes_ + bytes > most && free_largest()) continue;
}

bool BlockPool::free_largest() {
  while (largest_free_ > 0 && !free_[largest_free_]) --largest_free_;
  Block* block = take_free(largest_free_);
  if (!block) return false;
  disown(*block);
  delete block;
  return true;
}

void BlockPool::trim() {
  while (free_largest()) continue;
  returns_->keep_at_most(0);
  most_in_use_ = bytes_in_use_;
}

}  // namespace anfora
