#include "support/scratch.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstdint>
#include <mutex>
#include <new>

#include "anfora/error.h"
#include "support/aligned_bytes.h"
#include "support/parallel.h"

namespace anfora {
namespace {

// What precedes the memory of a block. Capacities are powers of two: free blocks are in lists by their exponent, and all of them together
// are at most twice the largest for each that was in use at a time.
struct alignas(64) Block {
  Block* next;
  int exponent;
};
constexpr int kSmallestExponent = 10, kExponents = 48;

class Blocks {
 public:
  Block* take(int exponent) {
    std::lock_guard lock(mutex_);
    if (!free_.at(static_cast<size_t>(exponent))) add(exponent, thread_count());
    Block*& first = free_[static_cast<size_t>(exponent)];
    Block* block = first;
    first = block->next;
    return block;
  }
  void give_back(Block* block) {
    std::lock_guard lock(mutex_);
    push(block);
  }

 private:
  void push(Block* block) {
    Block*& first = free_[static_cast<size_t>(block->exponent)];
    block->next = first;
    first = block;
  }
  // Memory that nobody writes to takes none.
  void add(int exponent, int count) {
    const size_t bytes = size_t{1} << exponent;
    for (int i = 0; i < count; ++i) {
      AlignedBytes memory = allocate_bytes(sizeof(Block) + bytes);
      if (!memory && i > 0) return;
      if (!memory) throw Error(ErrorCode::ResourceExhausted, fmt::format("cannot allocate {} bytes for a kernel", bytes));
      push(new (memory.release()) Block{nullptr, exponent});
    }
  }

  std::mutex mutex_;
  std::array<Block*, kExponents> free_{};
};

// Lives as long as the process: threads may still be on the way out.
Blocks& blocks() {
  static Blocks& all = *new Blocks;
  return all;
}

}  // namespace

void* take_scratch(size_t bytes) {
  if (bytes > size_t{1} << (kExponents - 1)) throw std::bad_array_new_length();
  return blocks().take(std::max(static_cast<int>(std::bit_width(std::max<size_t>(bytes, 1) - 1)), kSmallestExponent)) + 1;
}

void return_scratch(void* memory) { blocks().give_back(static_cast<Block*>(memory) - 1); }

}  // namespace anfora
