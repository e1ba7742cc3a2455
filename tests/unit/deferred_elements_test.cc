#include "support/deferred_elements.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <limits>
#include <stdexcept>
#include <thread>
#include <vector>

#include "ir/builder.h"
#include "kernels/reference/weights.h"
#include "ops/registry.h"
#include "support/parallel.h"
#include "support/passing_elements.h"

namespace anfora {
namespace {

constexpr std::array<int64_t, 2> kShape{4, 3};

// Element i is i; counts the rows that are computed.
Tensor counting_up(std::atomic<int64_t>& rows) {
  return DeferredElements::tensor(DType::F32, kShape, [&rows](int64_t first, int64_t count, std::byte* place) {
    rows += count;
    for (int64_t i = 0; i < count * kShape[1]; ++i) reinterpret_cast<float*>(place)[i] = static_cast<float>(first * kShape[1] + i);
  });
}

TEST(DeferredElements, AreComputedOnceForAllCopies) {
  std::atomic<int64_t> rows = 0;
  const Tensor tensor = counting_up(rows);
  const Tensor copy = tensor, reshaped = tensor.reshaped(std::array<int64_t, 1>{12});
  EXPECT_TRUE(Tensor::identical(tensor, copy));
  EXPECT_TRUE(DeferredElements::are_missing(reshaped));
  EXPECT_EQ(rows, 0);
  EXPECT_EQ(reshaped.data<float>()[11], 11);
  EXPECT_FALSE(DeferredElements::are_missing(tensor));
  EXPECT_EQ(copy.raw(), reshaped.raw());
  EXPECT_EQ(tensor.clone().data<float>()[4], 4);
  EXPECT_EQ(rows, 4);
}

TEST(DeferredElements, ByManyThreadsAsWell) {
  std::atomic<int64_t> rows = 0;
  const Tensor tensor = counting_up(rows);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([tensor] { EXPECT_EQ(tensor.data<float>()[5], 5); });
  for (std::thread& thread : threads) thread.join();
  parallel_for(8, 1, [&](int64_t, int64_t) { EXPECT_EQ(tensor.data<float>()[7], 7); });
  EXPECT_EQ(rows, 4);
}

TEST(DeferredElements, PartsAreCopiedAndNotKept) {
  std::atomic<int64_t> rows = 0;
  const Tensor tensor = counting_up(rows);
  std::array<float, 3> part{};
  DeferredElements::copy_bytes(tensor, 5 * sizeof(float), sizeof part, reinterpret_cast<std::byte*>(part.data()));
  EXPECT_EQ(part, (std::array<float, 3>{5, 6, 7}));
  EXPECT_EQ(rows, 2);
  EXPECT_TRUE(DeferredElements::are_missing(tensor));
  EXPECT_EQ(tensor.data<float>()[0], 0);
  DeferredElements::copy_bytes(tensor, 9 * sizeof(float), sizeof part, reinterpret_cast<std::byte*>(part.data()));
  EXPECT_EQ(part, (std::array<float, 3>{9, 10, 11}));
  EXPECT_EQ(rows, 6);
}

TEST(DeferredElements, StayMissingAfterAnError) {
  bool fails = true;
  const Tensor tensor = DeferredElements::tensor(DType::F32, kShape, [&](int64_t, int64_t count, std::byte* place) {
    if (fails) throw std::runtime_error("no");
    std::fill_n(reinterpret_cast<float*>(place), count * kShape[1], 1.0f);
  });
  EXPECT_THROW(tensor.raw(), std::runtime_error);
  EXPECT_TRUE(DeferredElements::are_missing(tensor));
  fails = false;
  EXPECT_EQ(tensor.data<float>()[2], 1);
}

TEST(DeferredElements, SettledOnesAreAsAnyOther) {
  std::atomic<int64_t> rows = 0;
  Tensor tensor = counting_up(rows);
  DeferredElements::settle(tensor);
  EXPECT_EQ(rows, 4);
  EXPECT_EQ(DeferredElements::identity(tensor), tensor.raw());
  Tensor plain = tensor.clone();
  DeferredElements::settle(plain);
  EXPECT_TRUE(Tensor::identical(plain, tensor));
}

TEST(PassingElements, AreComputedInMemoryThatTheNextOnesTake) {
  std::atomic<int64_t> rows = 0;
  const Tensor tensor = counting_up(rows);
  const PassingElements::Reuse reuse;
  const void* memory = nullptr;
  {
    const PassingElements all(tensor);
    EXPECT_EQ(all.data<float>()[11], 11);
    memory = all.raw();
  }
  const PassingElements part(tensor, 2, 1);
  EXPECT_EQ(part.raw(), memory);
  EXPECT_EQ(part.data<float>()[0], 6);
  EXPECT_EQ(rows, 5);
  EXPECT_TRUE(DeferredElements::are_missing(tensor));
}

TEST(PassingElements, AreTheTensorsOwnWhereItHasThem) {
  std::atomic<int64_t> rows = 0;
  const Tensor tensor = counting_up(rows).clone();
  EXPECT_EQ(PassingElements(tensor).raw(), tensor.raw());
  EXPECT_EQ(PassingElements(tensor, 1, 2).data<float>(), tensor.data<float>().data() + 3);
  EXPECT_EQ(PassingElements(Tensor::view(DType::F32, kShape, nullptr, nullptr)).raw(), nullptr);
}

// Equal elements are one constant, computed or not.
TEST(DeferredElements, ConstantsAreMerged) {
  auto context = ops::make_context();
  ir::Module module(*context);
  std::atomic<int64_t> rows = 0;
  const ir::Value* plain = module.constant(counting_up(rows).clone());
  EXPECT_EQ(module.constant(counting_up(rows)), plain);
}

TEST(ScaledRows, AreRoundedOnce) {
  const std::array<int64_t, 2> shape{2, 2};
  const Tensor rows = Tensor::from<float>(shape, std::array{1.0f, 2.0f, 3.0f, 4.0f});
  const Tensor factors = Tensor::vector<double>(std::array{0.1, 3.0});
  const auto scaled = kernels::scaled_rows(rows, factors);
  ASSERT_TRUE(scaled);
  EXPECT_TRUE(DeferredElements::are_missing(*scaled));
  EXPECT_EQ(scaled->data<float>()[1], static_cast<float>(2.0 * 0.1));
  EXPECT_EQ(scaled->data<float>()[2], 9);

  const Tensor large = Tensor::vector<double>(std::array{1.0, 1e38});
  EXPECT_FALSE(kernels::scaled_rows(rows, large)) << "4e38 is no f32";
  EXPECT_FALSE(kernels::scaled_rows(rows, Tensor::vector<double>(std::array{1.0, std::numeric_limits<double>::quiet_NaN()})));
  const Tensor undefined = Tensor::from<float>(shape, std::array{1.0f, 2.0f, -std::numeric_limits<float>::quiet_NaN(), 4.0f});
  EXPECT_FALSE(kernels::scaled_rows(undefined, factors));
  const Tensor endless = Tensor::from<float>(shape, std::array{1.0f, std::numeric_limits<float>::infinity(), 3.0f, 4.0f});
  EXPECT_EQ(kernels::scaled_rows(endless, factors)->data<float>()[1], std::numeric_limits<float>::infinity()) << "no row becomes so that was not";
  EXPECT_FALSE(kernels::scaled_rows(endless, Tensor::vector<double>(std::array{3.0, 0.1})));
}

}  // namespace
}  // namespace anfora
