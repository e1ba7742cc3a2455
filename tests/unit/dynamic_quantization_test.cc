// DynamicQuantizeLinear is a scale of the range, then QuantizeLinear.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "prepare_kernel.h"
#include "run_kernel.h"

namespace anfora::kernels {
namespace {

void expect_parts(const Tensor& x) {
  const std::vector<Tensor> whole = run_kernel("DynamicQuantizeLinear", {}, {x}, 3), scale = run_kernel("LoweredDynamicScale", {}, {x}, 2);
  EXPECT_TRUE(Tensor::identical(whole[1], scale[0]));
  EXPECT_TRUE(Tensor::identical(whole[2], scale[1]));
  EXPECT_TRUE(Tensor::identical(whole[0], run_kernel("QuantizeLinear", {}, {x, scale[0], scale[1]})[0]));
}

TEST(DynamicQuantization, IsOfTheRange) {
  const std::vector<Tensor> y = run_kernel("DynamicQuantizeLinear", {}, {Tensor::vector<float>(std::vector<float>{-1, 0, 4})}, 3);
  EXPECT_EQ(y[1].data<float>()[0], 5.0F / 255);
  EXPECT_EQ(y[2].data<uint8_t>()[0], 51);
  EXPECT_EQ(y[0].data<uint8_t>()[0], 0);
  EXPECT_EQ(y[0].data<uint8_t>()[2], 255);
}

TEST(DynamicQuantization, IsAScaleAndAQuantization) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kSmallest = std::numeric_limits<float>::denorm_min();
  for (const std::vector<float>& values : {std::vector<float>{}, {0}, {3}, {-2}, {kSmallest}, {-kSmallest}, {kInfinity, 1}, {-kInfinity, 1}})
    expect_parts(Tensor::vector<float>(values));
  for (int64_t size : {8191, 16385, 1 << 20}) expect_parts(random_tensor({size}, 1));
}

}  // namespace
}  // namespace anfora::kernels
