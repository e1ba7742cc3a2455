#include "kernels/reference/panels.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace anfora::kernels {
namespace {

TEST(Panels, HaveColumnsBesideEachOther) {
  // Column n has the steps 10 n + 0 … 10 n + 5, seen as [3, 2] with the axes exchanged.
  std::vector<int32_t> from;
  for (int32_t column = 0; column < 5; ++column) {
    for (int32_t step = 0; step < 6; ++step) from.push_back(10 * column + step);
  }
  std::vector<int32_t> to(3 * 6 * 2, -1);
  pack_panels(DType::I32, {5, 6}, std::array{StridedAxis{2, 1}, StridedAxis{3, 2}}, 2, from.data(), to.data());
  const std::vector<int32_t> wanted = {0,  10, 2,  12, 4,  14, 1,  11, 3,  13, 5,  15,   //
                                       20, 30, 22, 32, 24, 34, 21, 31, 23, 33, 25, 35,  //
                                       40, 0,  42, 0,  44, 0,  41, 0,  43, 0,  45, 0};
  EXPECT_EQ(to, wanted);
  std::vector<int32_t> back(from.size(), -1);
  unpack_panels(DType::I32, {5, 6}, std::array{StridedAxis{2, 1}, StridedAxis{3, 2}}, 2, to.data(), back.data());
  EXPECT_EQ(back, from);
}

TEST(Panels, OfRowsOfAMatrix) {
  const std::vector<float> from = {1, 2, 3, 4, 5, 6};  // [2, 3]
  std::vector<float> to(8, -1);
  pack_panels(DType::F32, {3, 1}, std::array{StridedAxis{2, 3}}, 2, from.data(), to.data());
  EXPECT_EQ(to, (std::vector<float>{1, 2, 4, 5, 3, 0, 6, 0}));
}

}  // namespace
}  // namespace anfora::kernels
