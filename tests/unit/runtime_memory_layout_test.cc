#include "runtime/memory_layout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace anfora::runtime {
namespace {

using Code = SizeExpression::Code;

Buffer buffer(uint32_t first, uint32_t last, int64_t bytes) { return {first, last, SizeExpression(bytes)}; }

void expect_sound(std::span<const Buffer> buffers, const MemoryLayout& layout) {
  EXPECT_GE(layout.bytes, layout.lower_bound);
  for (size_t a = 0; a < buffers.size(); ++a) {
    const auto& p = layout.places[a];
    ASSERT_GE(p.offset, 0);
    EXPECT_EQ(p.offset % kBufferAlignment, 0);
    EXPECT_LE(p.offset + p.bytes, layout.bytes);
    for (size_t b = 0; b < a; ++b) {
      const auto& q = layout.places[b];
      bool in_time = buffers[a].first <= buffers[b].last && buffers[b].first <= buffers[a].last;
      bool in_space = p.offset < q.offset + q.bytes && q.offset < p.offset + p.bytes;
      EXPECT_FALSE(in_time && in_space) << a << " and " << b;
    }
  }
}

TEST(MemoryLayout, ReusesWhatIsDead) {
  std::vector<Buffer> buffers = {buffer(0, 1, 100), buffer(1, 2, 300), buffer(2, 3, 128), buffer(3, 4, 320)};
  MemoryLayout layout = make_layout(buffers, {});
  expect_sound(buffers, layout);
  EXPECT_EQ(layout.lower_bound, 448);
  EXPECT_EQ(layout.bytes, 448);
}

TEST(MemoryLayout, RandomIntervalsNeverOverlap) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<Buffer> buffers;
    for (int i = 0; i < 60; ++i) {
      uint32_t first = random() % 50;
      buffers.push_back(buffer(first, first + random() % 12, random() % 2000));
    }
    MemoryLayout layout = make_layout(buffers, {});
    expect_sound(buffers, layout);
    EXPECT_LE(layout.bytes, layout.lower_bound * 9 / 8);
  }
}

TEST(MemoryLayout, SizesOverSymbols) {
  SizeExpression twice;  // 2·s0 + 1
  twice.push(Code::Constant, 2);
  twice.push(Code::Symbol, 0);
  twice.push(Code::Multiply);
  twice.push(Code::Constant, 1);
  twice.push(Code::Add);
  std::vector<Buffer> buffers = {{0, 1, twice}, {0, 1, SizeExpression()}};
  std::vector<int64_t> symbols = {100};
  MemoryLayout layout = make_layout(buffers, symbols);
  EXPECT_EQ(layout.places[0].bytes, 201);
  EXPECT_EQ(layout.places[1].offset, MemoryLayout::kNowhere);
  symbols = {kUnbound};
  EXPECT_EQ(make_layout(buffers, symbols).places[0].offset, MemoryLayout::kNowhere);
}

TEST(SizeExpression, RoundsAsTheCompilerDoes) {
  auto compute = [](Code code, int64_t a, int64_t b) {
    SizeExpression e(a);
    e.push(Code::Constant, b);
    e.push(code);
    return e.evaluate({});
  };
  for (int64_t a = -9; a <= 9; ++a) {
    for (int64_t b : {-4, -3, 2, 3, 5}) {
      double quotient = static_cast<double>(a) / static_cast<double>(b);
      EXPECT_EQ(compute(Code::FloorDivide, a, b), static_cast<int64_t>(std::floor(quotient)));
      EXPECT_EQ(compute(Code::CeilDivide, a, b), static_cast<int64_t>(std::ceil(quotient)));
      EXPECT_EQ(compute(Code::Modulo, a, b), a - b * static_cast<int64_t>(std::floor(quotient)));
    }
  }
  EXPECT_EQ(compute(Code::FloorDivide, 1, 0), std::nullopt);
  EXPECT_EQ(compute(Code::Multiply, int64_t{1} << 40, int64_t{1} << 40), std::nullopt);
}

}  // namespace
}  // namespace anfora::runtime
