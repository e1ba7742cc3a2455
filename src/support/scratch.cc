#include "support/scratch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include "anfora/error.h"
#include "support/aligned_bytes.h"
#include "support/parallel.h"

namespace anfora {
namespace {

// What precedes the memory of a block. Capacities are powers of two: free blocks are in lists by their exponent, and all of them together
// are at most twice the largest for each that was in use at a time.
struct alignas(64) Block {
  int exponent;
};
constexpr int kSmallestExponent = 10, kExponents = 48;

// What the calling thread has, by exponent. For the alignment see parallel.cc.
alignas(16) thread_local std::array<int, kExponents> taken{};

class Blocks {
 public:
  Block* take(int exponent) {
    List& list = lists_.at(static_cast<size_t>(exponent));
    const int of_thread = ++taken[static_cast<size_t>(exponent)], threads = thread_count();
    const auto lock = locked();
    // Another thread may give back what this one has counted.
    const int wanted = std::min(of_thread, ++list.in_use) * threads;
    if (list.free.empty() || list.made < wanted) add(list, exponent, std::max(wanted - list.made, 1));
    // Its own lines are in its processor's cache; another's would come from there one by one as they are written to.
    auto block = std::ranges::find(list.free.rbegin(), list.free.rend(), this_thread(), &Free::last_user);
    if (block == list.free.rend()) block = list.free.rbegin();
    Block* const chosen = block->block;
    list.free.erase(std::next(block).base());
    return chosen;
  }
  void give_back(Block* block) {
    List& list = lists_[static_cast<size_t>(block->exponent)];
    --taken[static_cast<size_t>(block->exponent)];
    const auto lock = locked();
    --list.in_use;
    list.free.push_back({block, this_thread()});
  }

 private:
  struct Free {
    Block* block;
    const void* last_user;  // a thread; null: nobody
  };
  struct List {
    std::vector<Free> free;  // the last one given back is last; has room for all that are made
    int made = 0, in_use = 0;
  };

  static const void* this_thread() { return taken.data(); }

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
  // Memory that nobody writes to takes none.
  void add(List& list, int exponent, int count) {
    const size_t bytes = size_t{1} << exponent;
    list.free.reserve(static_cast<size_t>(list.made + count));
    for (int i = 0; i < count; ++i) {
      AlignedBytes memory = allocate_bytes(sizeof(Block) + bytes);
      if (!memory && !list.free.empty()) return;
      if (!memory) {
        --taken[static_cast<size_t>(exponent)], --list.in_use;
        throw Error(ErrorCode::ResourceExhausted, fmt::format("cannot allocate {} bytes for a kernel", bytes));
      }
      list.free.push_back({new (memory.release()) Block{exponent}, nullptr});
      ++list.made;
    }
  }

  std::mutex mutex_;
  std::array<List, kExponents> lists_;
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
