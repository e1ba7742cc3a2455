// Kernels that move elements, beside loops over all of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <complex>

#include "run_kernel.h"

namespace anfora {
namespace {

template <class T>
Tensor counted(const Shape& shape) {
  Tensor tensor = Tensor::allocate(dtype_of<T>, shape);
  std::ranges::generate(tensor.data<T>(), [i = 0]() mutable { return static_cast<T>(static_cast<float>(i++ % 251)); });
  return tensor;
}

template <class T>
class Transposed : public testing::Test {};
using UnitsOfAllSizes = testing::Types<uint8_t, int16_t, float, int64_t, std::complex<double>>;
TYPED_TEST_SUITE(Transposed, UnitsOfAllSizes);

// Blocks, tiles and panels with and without a rest.
TYPED_TEST(Transposed, HasAllElementsInTheirPlaces) {
  for (const auto& [rows, columns] : {std::pair(1, 7), std::pair(64, 64), std::pair(37, 83), std::pair(130, 300), std::pair(1100, 21), std::pair(2, 301), std::pair(301, 2), std::pair(3, 9001), std::pair(9001, 3)}) {
    SCOPED_TRACE(testing::Message() << rows << " x " << columns);
    const Tensor x = counted<TypeParam>({2, rows, columns});
    const Tensor y = run_kernel("Transpose", {{"perm", std::vector<int64_t>{0, 2, 1}}}, {x})[0];
    ASSERT_EQ(y.shape(), (Shape{2, columns, rows}));
    const auto from = x.data<TypeParam>(), to = y.data<TypeParam>();
    size_t wrong = 0;
    for (size_t n = 0; n < 2; ++n) {
      for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
        for (size_t c = 0; c < static_cast<size_t>(columns); ++c)
          wrong += to[(n * columns + c) * rows + r] != from[(n * rows + r) * columns + c] ? 1 : 0;
      }
    }
    EXPECT_EQ(wrong, 0u);
  }
}

TEST(DepthToSpace, IsTheSameWithTheChannelsLast) {
  const Tensor x = counted<float>({2, 24, 3, 5});
  auto transposed = [](const Tensor& tensor, std::vector<int64_t> perm) { return run_kernel("Transpose", {{"perm", std::move(perm)}}, {tensor})[0]; };
  for (const char* mode : {"DCR", "CRD"}) {
    const Tensor expected = run_kernel("DepthToSpace", {{"blocksize", int64_t{2}}, {"mode", mode}}, {x})[0];
    const AttributeSet lowered{{"blocks", std::vector<int64_t>{2, 2}}, {"mode", mode}};
    const Tensor y = run_kernel("LoweredDepthToSpace", lowered, {transposed(x, {0, 2, 3, 1})})[0];
    EXPECT_TRUE(Tensor::identical(transposed(y, {0, 3, 1, 2}), expected)) << mode;
  }
  const Tensor y = run_kernel("LoweredDepthToSpace", {{"blocks", std::vector<int64_t>{3, 2}}}, {counted<float>({1, 1, 2, 6})})[0];
  EXPECT_EQ(y.shape(), (Shape{1, 3, 4, 1}));
  EXPECT_EQ(values_of<float>(y), (std::vector<float>{0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11}));
  EXPECT_THROW(run_kernel("LoweredDepthToSpace", {{"blocks", std::vector<int64_t>{2, 2}}}, {counted<float>({1, 1, 2, 6})}), Error);
}

// Where there are no elements, the axes that are not copied say what -1 stands for.
TEST(Reshape, InfersADimensionOfNoElements) {
  auto reshaped = [](const Shape& from, std::vector<int64_t> to) {
    return run_kernel("Reshape", {}, {Tensor::zeros(DType::F32, from), Tensor::vector<int64_t>(to)})[0].shape();
  };
  EXPECT_EQ(reshaped({0, 6, 4}, {0, -1, 2}), (Shape{0, 12, 2}));
  EXPECT_EQ(reshaped({0, 6, 0}, {0, -1, 0}), (Shape{0, 6, 0}));
  EXPECT_EQ(reshaped({2, 6, 4}, {0, -1, 2}), (Shape{2, 12, 2}));
  EXPECT_EQ(reshaped({0, 3}, {-1, 2}), (Shape{0, 2}));
  EXPECT_THROW(reshaped({0, 5, 1}, {0, -1, 2}), Error);
  EXPECT_EQ(reshaped({3, 0}, {1, 0, -1}), (Shape{1, 0, 3}));
}

}  // namespace
}  // namespace anfora
