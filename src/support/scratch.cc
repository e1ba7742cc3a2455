#include "support/scratch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "anfora/error.h"
#include "support/aligned_bytes.h"
#include "support/parallel.h"

namespace anfora {
namespace {

// A piece of memory for the blocks of a stack, one above the other.
struct alignas(64) Chunk {
  Chunk* below;     // of the same stack, which found it too small
  size_t capacity;  // bytes behind this
  std::byte* begin() { return reinterpret_cast<std::byte*>(this + 1); }
};

// Chunks that nobody has. They are as large as the highest stack so far, so that the next one takes a single chunk.
class Chunks {
 public:
  // At least so many bytes for a stack that gets so high by it, preferably the chunk that this user had last. Parts are users beside the threads. Throws
  // ResourceExhausted.
  Chunk* take(size_t bytes, size_t height, const void* user, int parts = 0) {
    const int threads = thread_count();
    const auto lock = locked();
    parts_ = std::max(parts_, parts);
    grow(height);
    if (free_.empty()) add(std::max(threads + parts_ - made_, 1));
    if (free_.empty()) return make(bytes);
    // Its own lines are in its processor's cache; another's would come from there one by one as they are written to.
    auto chosen = std::ranges::find(free_.rbegin(), free_.rend(), user, &Free::last_user);
    if (chosen == free_.rend()) chosen = free_.rbegin();
    Chunk* const chunk = chosen->chunk;
    free_.erase(std::next(chosen).base());
    return chunk;
  }
  void give_back(Chunk* chunk, const void* user) {
    const auto lock = locked();
    chunk->capacity < capacity_ ? drop(chunk) : free_.push_back({chunk, user});
  }

 private:
  struct Free {
    Chunk* chunk;
    const void* last_user;  // a thread or a part; null: nobody
  };

  // It is held for some nanoseconds mostly, and all threads of a loop want it at once as they begin: those that sleep would be late.
  std::unique_lock<std::mutex> locked() {
    constexpr int kTries = 100;
    std::unique_lock lock(mutex_, std::try_to_lock);
    for (int i = 0; i < kTries && !lock; ++i) {
      __builtin_ia32_pause();
      (void)lock.try_lock();
    }
    if (!lock) lock.lock();
    return lock;
  }
  void grow(size_t bytes) {
    if (bytes <= capacity_) return;
    for (const Free& free : free_) drop(free.chunk);
    free_.clear();
    made_ = 0;
    capacity_ = std::bit_ceil(bytes);
  }
  // Fewer, or none, where there is not so much memory. What nobody writes to takes none.
  void add(int count) {
    free_.reserve(static_cast<size_t>(made_ + count));
    for (int i = 0; i < count; ++i, ++made_) {
      AlignedBytes memory = allocate_bytes(sizeof(Chunk) + capacity_);
      if (!memory) return;
      free_.push_back({new (memory.release()) Chunk{nullptr, capacity_}, nullptr});
    }
  }
  static Chunk* make(size_t bytes) {
    AlignedBytes memory = allocate_bytes(sizeof(Chunk) + bytes);
    if (!memory) throw Error(ErrorCode::ResourceExhausted, fmt::format("cannot allocate {} bytes for a kernel", bytes));
    return new (memory.release()) Chunk{nullptr, bytes};
  }
  static void drop(Chunk* chunk) { FreeBytes()(reinterpret_cast<std::byte*>(chunk)); }

  std::mutex mutex_;
  std::vector<Free> free_;  // the last one given back is last
  int made_ = 0;            // of this capacity
  int parts_ = 0;
  size_t capacity_ = size_t{1} << 16;
};

// Lives as long as the process: threads may still be on the way out.
Chunks& chunks() {
  static Chunks& all = *new Chunks;
  return all;
}

// What precedes the memory of a block.
struct alignas(64) Block {
  Block* below;
  std::byte* end;
  std::atomic<bool> is_free;
};

// The blocks that a thread has, each above those that it took before. One that is given back while there are others above it, as by a container that has grown,
// goes when they do. As long as there are blocks, the thread has the chunk.
class Stack {
 public:
  void* take(size_t bytes) {
    remove_free_blocks();
    const size_t size = sizeof(Block) + (bytes + sizeof(Block) - 1) / sizeof(Block) * sizeof(Block);
    const bool fits = top_ && size <= static_cast<size_t>(chunk_->begin() + chunk_->capacity - top_->end);
    std::byte* const begin = fits ? top_->end : add_chunk(size)->begin();
    top_ = new (begin) Block{top_, begin + size, false};
    return top_ + 1;
  }
  // Of any thread's stack; one of another's is removed when that one takes a block.
  void give_back(void* memory) {
    (static_cast<Block*>(memory) - 1)->is_free.store(true, std::memory_order_release);
    remove_free_blocks();
  }

 private:
  Chunk* add_chunk(size_t size) {
    size_t height = size;
    for (Chunk* below = chunk_; below; below = below->below) height += below->capacity;
    Chunk* const chunk = chunks().take(size, height, this);
    chunk->below = std::exchange(chunk_, chunk);
    return chunk;
  }

  void remove_free_blocks() {
    while (top_ && top_->is_free.load(std::memory_order_acquire)) {
      const Block* const removed = std::exchange(top_, top_->below);
      if (reinterpret_cast<const std::byte*>(removed) == chunk_->begin()) chunks().give_back(std::exchange(chunk_, chunk_->below), this);
    }
  }

  Chunk* chunk_ = nullptr;  // of the highest block
  Block* top_ = nullptr;
};

// For the alignment see parallel.cc.
alignas(16) thread_local Stack stack;

constexpr std::array<char, 64> kUsersOfParts{};
const void* user_of_part(size_t part) { return &kUsersOfParts[part % kUsersOfParts.size()]; }

}  // namespace

void* take_scratch(size_t bytes) {
  if (bytes > SIZE_MAX / 4) throw std::bad_array_new_length();
  return stack.take(bytes);
}

void return_scratch(void* memory) { stack.give_back(memory); }

void* take_scratch_of_part(size_t part, size_t bytes) {
  const int parts = static_cast<int>(std::min(part + 1, kUsersOfParts.size()));
  return chunks().take(bytes, bytes, user_of_part(part), parts)->begin();
}

void return_scratch_of_part(size_t part, void* memory) { chunks().give_back(static_cast<Chunk*>(memory) - 1, user_of_part(part)); }

}  // namespace anfora
