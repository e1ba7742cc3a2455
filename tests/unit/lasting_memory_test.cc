// Tensors side by side in a region, which goes with the last of them.
#include "support/lasting_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "support/parallel.h"

namespace anfora {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;

TEST(LastingMemory, LiesSideBySideWhileThereIsRoom) {
  Tensor first, second, large;
  {
    const LastingMemory region(kHugePage + 100);
    first = LastingMemory::allocate(DType::F32, Shape{3, 5}), second = LastingMemory::allocate(DType::I64, Shape{7});
    large = LastingMemory::allocate(DType::U8, Shape{kHugePage});
  }
  EXPECT_EQ(first.shape(), (Shape{3, 5}));
  EXPECT_EQ(second.dtype(), DType::I64);
  EXPECT_EQ(static_cast<std::byte*>(second.raw()), static_cast<std::byte*>(first.raw()) + 64);
  std::ranges::fill(large.data<uint8_t>(), uint8_t{1});
  first = Tensor();
  std::ranges::fill(second.data<int64_t>(), 9);
  EXPECT_EQ(second.data<int64_t>()[6], 9);
}

TEST(LastingMemory, IsOrdinaryWithoutARegion) {
  const LastingMemory none(1000);
  for (int64_t size : {4, 0}) {
    Tensor tensor = LastingMemory::allocate(DType::F32, Shape{size});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.raw()) % 64, 0);
    std::ranges::fill(tensor.data<float>(), 1.0f);
  }
}

// Whether its pages are fast or slow, all of it is there.
TEST(LastingMemory, LiesSideBySideInManyPages) {
  std::vector<Tensor> all;
  {
    const LastingMemory region(5 * kHugePage);
    for (int64_t i = 0; i < 6; ++i) all.push_back(LastingMemory::allocate(DType::U8, Shape{kHugePage * 3 / 4}));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].data<uint8_t>().data(), all[0].data<uint8_t>().data() + std::ssize(all[0].data<uint8_t>()) * static_cast<int64_t>(i));
    std::ranges::fill(all[i].data<uint8_t>(), static_cast<uint8_t>(i));
  }
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].data<uint8_t>().back(), i);
}

TEST(LastingMemory, IsForManyThreads) {
  std::vector<Tensor> all(1000);
  {
    const LastingMemory region(kHugePage);
    with_threads(8, [&] {
      parallel_for(std::ssize(all), 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          Tensor& tensor = all[static_cast<size_t>(i)] = LastingMemory::allocate(DType::I64, Shape{1 + i % 600});
          std::ranges::fill(tensor.data<int64_t>(), i);
        }
      });
    });
  }
  for (size_t i = 0; i < all.size(); ++i)
    EXPECT_TRUE(std::ranges::all_of(all[i].data<int64_t>(), [&](int64_t x) { return x == static_cast<int64_t>(i); })) << i;
}

}  // namespace
}  // namespace anfora
