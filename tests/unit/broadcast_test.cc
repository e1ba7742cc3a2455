#include "kernels/reference/broadcast.h"

#include <gtest/gtest.h>

#include <vector>

#include "anfora/error.h"

namespace anfora::kernels {
namespace {

using Ints = std::vector<int64_t>;

TEST(Broadcast, Shapes) {
  EXPECT_EQ(broadcast_shape(Ints{2, 1, 4}, Ints{3, 1}), (Shape{2, 3, 4}));
  EXPECT_EQ(broadcast_shape(Ints{}, Ints{5}), (Shape{5}));
  EXPECT_EQ(broadcast_shape(Ints{1}, Ints{0}), (Shape{0}));
  EXPECT_THROW(broadcast_shape(Ints{2}, Ints{3}), Error);
  EXPECT_THROW(broadcast_shape(Ints{0}, Ints{3}), Error);
}

TEST(LoopNest, MergesWhatLiesBackToBack) {
  LoopNest nest = LoopNest::broadcast(Ints{8, 16, 32, 32}, {Ints{8, 16, 32, 32}, Ints{16, 1, 1}});
  EXPECT_EQ(nest.sizes(), (Shape{8, 16, 1024}));
  EXPECT_EQ(nest.strides(2), (Shape{0, 1, 0}));
  EXPECT_TRUE(LoopNest::broadcast(Ints{2, 1, 3}, {Ints{2, 1, 3}}).is_flat());
  EXPECT_TRUE(LoopNest::broadcast(Ints{}, {Ints{}}).is_flat());
  EXPECT_FALSE(LoopNest::broadcast(Ints{2, 3}, {Ints{1, 3}}).is_flat());
}

// Every point is visited once, with the offsets that the definition gives.
void expect_offsets(const Ints& out, const Ints& a, const Ints& b) {
  LoopNest nest = LoopNest::broadcast(out, {a, b});
  Shape sa = broadcast_strides(a, out), sb = broadcast_strides(b, out);
  Ints got_a(static_cast<size_t>(nest.size()), -1), got_b = got_a;
  nest.for_each_run(3, [&](const int64_t* at, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      got_a[at[0] + i] = at[1] + i * nest.run_stride(1);
      got_b[at[0] + i] = at[2] + i * nest.run_stride(2);
    }
  });
  for (int64_t point = 0; point < nest.size(); ++point) {
    int64_t rest = point, want_a = 0, want_b = 0;
    for (size_t d = out.size(); d-- > 0;) {
      want_a += rest % out[d] * sa[d];
      want_b += rest % out[d] * sb[d];
      rest /= out[d];
    }
    EXPECT_EQ(got_a[point], want_a) << point;
    EXPECT_EQ(got_b[point], want_b) << point;
  }
}

TEST(LoopNest, VisitsEveryPointOnce) {
  expect_offsets({2, 3, 4}, {3, 1}, {2, 1, 4});
  expect_offsets({5, 7}, {5, 1}, {7});
  expect_offsets({4, 1, 3, 5}, {4, 1, 1, 5}, {3, 1});
  expect_offsets({}, {}, {});
  expect_offsets({0, 3}, {0, 1}, {3});
  expect_offsets({11}, {1}, {11});
}

TEST(LoopNest, WalksAPermutation) {
  Ints sizes{3, 4};  // a 4x3 tensor read transposed
  LoopNest nest(sizes, {dense_strides(sizes), Ints{1, 3}});
  Ints seen;
  nest.for_each_run(100, [&](const int64_t* at, int64_t count) {
    for (int64_t i = 0; i < count; ++i) seen.push_back(at[1] + i * nest.run_stride(1));
  });
  EXPECT_EQ(seen, (Ints{0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11}));
}

}  // namespace
}  // namespace anfora::kernels
