#include "ir/dim.h"

#include <gtest/gtest.h>

namespace anfora::ir {
namespace {

TEST(Dim, EqualExpressionsAreOnePointer) {
  DimTable t;
  Dim n = t.symbol("N"), m = t.symbol("M");
  EXPECT_EQ((n + 1) * 2, n * 2 + 2);
  EXPECT_EQ((n + m) * (n - m), n * n - m * m);
  EXPECT_EQ(n - n, t.constant(0));
  EXPECT_EQ(floor_div(n * 2 + 4, 2), n + 2);
  EXPECT_EQ(*divide_exactly(n * m * 6, m * 3), n * 2);
  EXPECT_FALSE(divide_exactly(n * 3, t.constant(2)));
}

TEST(Dim, PrintsAsPeopleWrite) {
  DimTable t;
  Dim n = t.symbol("N");
  EXPECT_EQ(to_string(n * 2 + 1), "2*N+1");
  EXPECT_EQ(to_string(ceil_div(n, 16)), "ceildiv(N, 16)");
  EXPECT_EQ(to_string(n * -1 + 3), "-N+3");
  EXPECT_EQ(to_string(t.symbol("a b")), "'a b'");
  EXPECT_EQ(to_string(floor_div(n * 2 + 5, 2)), "N+2");
}

TEST(Dim, RangesDecide) {
  DimTable t;
  Dim n = t.symbol("N", {1, 8});
  EXPECT_TRUE(provably_different(n, t.constant(0)));
  EXPECT_FALSE(provably_different(n, t.constant(8)));
  EXPECT_EQ(max(n, t.constant(0)), n);
  EXPECT_EQ(mod(n, t.constant(9)), n);
}

TEST(Dim, SmallerAndLargerMeet) {
  DimTable t;
  Dim n = t.symbol("N"), m = t.symbol("M"), rest = max(t.constant(0), n - m);
  EXPECT_EQ(min(n, max(t.constant(0), n - 1)), max(t.constant(0), n - 1));  // 0 and N − 1 are at most N
  EXPECT_EQ(min(n, m) + rest, n);
  EXPECT_EQ(n - min(n, m) * 2 - rest * 2, n * -1);
  EXPECT_NE(min(n, m) + rest * 2, n);
}

TEST(Dim, UnknownAndOverflow) {
  DimTable t;
  EXPECT_TRUE((t.unknown() + 1).is_unknown());
  EXPECT_FALSE(provably_equal(t.unknown(), t.unknown()));
  EXPECT_TRUE((t.constant(int64_t{1} << 40) * (int64_t{1} << 40)).is_unknown());
}

TEST(Dim, EvaluatesAndSubstitutes) {
  DimTable t;
  Dim n = t.symbol("N"), e = floor_div(n * 3 + 1, 2) + n;
  EXPECT_EQ(evaluate(e, [](std::string_view) { return 5; }), 13);
  EXPECT_EQ(substitute(e, [&](Dim) { return t.constant(5); }), t.constant(13));
}

}  // namespace
}  // namespace anfora::ir
