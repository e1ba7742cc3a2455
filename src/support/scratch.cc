#include "support/scratch.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

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

// What the calling thread has, by exponent. For the alignment see parallel.cc.
alignas(16) thread_local std::array<int, kExponents> taken{};

class Blocks {
 public:
  Block* take(int exponent) {
    const auto list = static_cast<size_t>(exponent);
    const int of_thread = ++taken.at(list), threads = thread_count();
    const auto lock = locked();
    // Another thread may give back what this one has counted.
    const int wanted = std::min(of_thread, ++in_use_[list]) * threads;
    if (!free_[list] || made_[list] < wanted) add(exponent, std::max(wanted - made_[list], 1));
    return std::exchange(free_[list], free_[list]->next);
  }
  void give_back(Block* block) {
    --taken[static_cast<size_t>(block->exponent)];
    const auto lock = locked();
    --in_use_[static_cast<size_t>(block->exponent)];
    push(block);
  }

 private:
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
      if (!memory && free_[static_cast<size_t>(exponent)]) return;
      if (!memory) {
        --taken[static_cast<size_t>(exponent)], --in_use_[static_cast<size_t>(exponent)];
        throw Error(ErrorCode::ResourceExhausted, fmt::format("cannot allocate {} bytes for a kernel", bytes));
      }
      push(new (memory.release()) Block{nullptr, exponent});
      ++made_[static_cast<size_t>(exponent)];
    }
  }

  std::mutex mutex_;
  std::array<Block*, kExponents> free_{};
  std::array<int, kExponents> made_{}, in_use_{};
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
