#include "support/block_pool.h"

#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "count.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora {
namespace {

Tensor bytes(BlockPool& pool, int64_t count) { return pool.allocate(DType::U8, Shape{count}); }

TEST(BlockPool, TakesBlocksAgain) {
  BlockPool pool;
  const void* memory = bytes(pool, 1000).raw();
  EXPECT_EQ(count_allocations([&] { EXPECT_EQ(bytes(pool, 900).raw(), memory); }), 0);
  Tensor first = bytes(pool, 1000), second = bytes(pool, 1000);
  EXPECT_EQ(first.raw(), memory);
  EXPECT_NE(second.raw(), memory);
  Tensor view = second.reshaped(Shape{10, 100});
  second = Tensor();
  EXPECT_NE(bytes(pool, 1000).raw(), view.raw()) << "a view keeps the block";
}

TEST(BlockPool, TakesTheSmallestThatFits) {
  BlockPool pool;
  const void* small;
  {
    Tensor large = bytes(pool, 10'000), tensor = bytes(pool, 1'000);
    small = tensor.raw();
  }
  EXPECT_EQ(bytes(pool, 500).raw(), small);
  EXPECT_NE(bytes(pool, 2'000).raw(), small);
}

TEST(BlockPool, TakesWhatCameBackLast) {
  BlockPool pool;
  std::vector<Tensor> kept;
  for (int i = 0; i < 1000; ++i) kept.push_back(bytes(pool, i % 2 ? 60 : 100));
  const void* memory[] = {kept[1].raw(), kept[3].raw()};
  Tensor last = kept[3], before = kept[1];
  kept.clear();
  before = Tensor();
  last = Tensor();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(bytes(pool, 60).raw(), memory[1]);
  last = bytes(pool, 60);
  EXPECT_EQ(bytes(pool, 60).raw(), memory[0]);
}

TEST(BlockPool, HasAtMostTwiceWhatWasOnceInUse) {
  BlockPool pool;
  for (int64_t size = 1; size < 10'000; ++size) bytes(pool, size);
  EXPECT_LE(pool.bytes(), 2 * 10'000 * 9 / 8);
}

TEST(BlockPool, SmallTensorsLeaveLargeBlocks) {
  BlockPool pool;
  std::vector<Tensor> kept;
  for (int i = 0; i < 100; ++i) {
    bytes(pool, 100'000);
    kept.push_back(bytes(pool, 10));
  }
  EXPECT_LE(pool.bytes(), 200'000 * 9 / 8);
}

TEST(BlockPool, SizesTakeTurns) {
  BlockPool pool;
  auto all = [&] {
    for (int64_t size : {100, 10'000, 900, 100'000}) bytes(pool, size);
  };
  all();
  all();
  EXPECT_EQ(count_allocations(all), 0);
}

TEST(BlockPool, ATensorMayOutliveIt) {
  auto pool = std::make_unique<BlockPool>();
  Tensor kept = bytes(*pool, 100), given = bytes(*pool, 100);
  BlockPool::give_away(given);
  BlockPool::give_away(Tensor::zeros(DType::U8, Shape{3}));
  std::thread([tensor = std::move(given)]() mutable { tensor = Tensor(); }).join();
  pool.reset();
  std::ranges::fill(kept.data<uint8_t>(), uint8_t{7});
  EXPECT_EQ(kept.data<uint8_t>()[99], 7);
}

TEST(BlockPool, LargeResultsAreTakenAgain) {
  constexpr int64_t kLarge = 1 << 20;
  auto pool = std::make_unique<BlockPool>();
  auto give = [&] {
    std::vector<Tensor> given{bytes(*pool, kLarge), bytes(*pool, kLarge), bytes(*pool, 100)};
    for (const Tensor& tensor : given) BlockPool::give_away(tensor);
    pool->end_giving();
    return given;
  };
  std::vector<Tensor> kept = give(), latest = give();
  auto addresses = [](const std::vector<Tensor>& tensors) { return std::set{tensors[0].raw(), tensors[1].raw()}; };
  const std::set before = addresses(latest);
  std::thread([freed = std::move(latest)]() mutable { freed.clear(); }).join();
  std::vector<Tensor> again = give();
  EXPECT_EQ(addresses(again), before);
  // No more waits than is given at once.
  again.clear();
  kept.clear();
  std::vector<Tensor> more = give(), yet_more = give();
  EXPECT_EQ(pool->bytes(), 0);
  pool.reset();
  std::ranges::fill(more[0].data<uint8_t>(), uint8_t{7});
  more.clear();
}

TEST(Scratch, IsTakenAgain) {
  { Scratch<int64_t> first(100); }
  EXPECT_EQ(count_allocations([] {
              const Scratch<int64_t> again(90, 3);
              EXPECT_EQ(again[89], 3);
            }),
            0);
}

TEST(Scratch, IsThereForAThreadThatComesLate) {
  constexpr size_t kSize = 50'000;
  with_threads(2, [&] { Scratch<int64_t> first(kSize); });
  std::latch begin(1), taken(1), end(1);
  std::thread late([&] {
    begin.wait();
    const Scratch<int64_t> its(kSize);
    taken.count_down();
    end.wait();
  });
  const Scratch<int64_t> own(kSize);
  EXPECT_EQ(count_allocations([&] {
              begin.count_down();
              taken.wait();
            }),
            thread_count() > 1 ? 0 : 1);
  end.count_down();
  late.join();
}

TEST(Scratch, StaysWithItsThread) {
  constexpr size_t kSize = 60'000;
  std::latch taken(2), given_back(1);
  const void *first = nullptr, *again = nullptr;
  std::thread other([&] {
    {
      const Scratch<int64_t> its(kSize);
      first = its.data();
      taken.arrive_and_wait();
    }
    given_back.count_down();
  });
  std::thread thread([&] {
    const void* memory = nullptr;
    {
      const Scratch<int64_t> its(kSize);
      memory = its.data();
      taken.arrive_and_wait();
    }
    given_back.wait();
    const Scratch<int64_t> its(kSize);
    again = its.data();
    EXPECT_EQ(again, memory);
  });
  other.join();
  thread.join();
  EXPECT_NE(again, first);
}

TEST(Scratch, LiesInOnePieceOnceItIsKnownHowMuchIsNeeded) {
  const auto take_some = [](size_t size, const auto& self) -> const int64_t* {
    const Scratch<int64_t> block(size, static_cast<int64_t>(size));
    const int64_t* const above = size < 5'000'000 ? self(2 * size, self) : block.data();
    EXPECT_EQ(block[0], static_cast<int64_t>(size));
    EXPECT_EQ(block[size - 1], static_cast<int64_t>(size));
    return above;
  };
  take_some(100'000, take_some);
  EXPECT_EQ(count_allocations([&] { take_some(100'000, take_some); }), 0);
}

TEST(Scratch, ContainersGiveBackWhatTheyHaveOutgrown) {
  const void* const before = Scratch<int64_t>(10).data();
  {
    ScratchVector<int64_t> numbers;
    for (int64_t i = 0; i < 100'000; ++i) numbers.push_back(i);
    for (int64_t i = 0; i < 100'000; ++i) EXPECT_EQ(numbers[static_cast<size_t>(i)], i);
  }
  EXPECT_EQ(Scratch<int64_t>(10).data(), before);
}

TEST(Scratch, IsGivenBackByAnotherThread) {
  const void* const before = Scratch<int64_t>(10).data();
  auto block = std::make_unique<Scratch<int64_t>>(10);
  const Scratch<int64_t> above(10);
  std::thread([&] { block.reset(); }).join();
  EXPECT_NE(Scratch<int64_t>(10).data(), before) << "what lies above is still there";
}

TEST(PartScratch, IsThatOfThePart) {
  const auto take_two = [](size_t size) {
    const PartScratch<int64_t> first(0, size), second(1, size);
    return std::pair<const void*, const void*>(first.data(), second.data());
  };
  { const Scratch<int64_t> most(100'000); }
  const auto parts = take_two(1'000);
  EXPECT_NE(parts.first, parts.second);
  { const Scratch<int64_t> of_the_thread(50'000); }
  EXPECT_EQ(count_allocations([&] { EXPECT_EQ(take_two(100'000), parts); }), 0);
}

}  // namespace
}  // namespace anfora
