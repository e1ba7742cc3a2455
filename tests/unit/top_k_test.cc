// TopK against a stable sort, on lines from which few elements are taken.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "run_kernel.h"

namespace anfora {
namespace {

TEST(TopK, OfLongLines) {
  constexpr int64_t kLines = 3, kSize = 2000;
  std::mt19937 random(1);
  std::vector<float> x(kLines * kSize);
  // Many are equal. One line rises: each element is larger than all before it.
  for (size_t i = 0; i < x.size(); ++i) x[i] = i < kSize ? static_cast<float>(i) : static_cast<float>(random() % 100);
  x[kSize + 7] = -std::numeric_limits<float>::infinity();
  for (const bool largest : {true, false}) {
    for (const int64_t k : {1, 5, 100, 1000, 1999, 2000}) {
      const auto found = run_kernel("TopK", {{"largest", int64_t{largest}}}, {make_tensor<float>({kLines, kSize}, x), make_tensor<int64_t>({1}, {k})}, 2);
      const auto values = values_of<float>(found[0]);
      const auto indices = values_of<int64_t>(found[1]);
      for (int64_t line = 0; line < kLines; ++line) {
        const float* row = x.data() + line * kSize;
        std::vector<int64_t> order(kSize);
        std::iota(order.begin(), order.end(), 0);
        std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return largest ? row[a] > row[b] : row[a] < row[b]; });
        for (int64_t i = 0; i < k; ++i) {
          ASSERT_EQ(indices[static_cast<size_t>(line * k + i)], order[static_cast<size_t>(i)]) << "k " << k << ", line " << line << ", place " << i;
          ASSERT_EQ(values[static_cast<size_t>(line * k + i)], row[order[static_cast<size_t>(i)]]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace anfora
