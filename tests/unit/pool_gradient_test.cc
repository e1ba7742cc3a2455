// The gradient of MaxPool, beside what MaxPool's indices say.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "run_kernel.h"

namespace anfora {
namespace {

// Few different elements, so that windows have several largest ones; some are NaN.
Tensor few_numbers(const Shape& shape) {
  Tensor tensor = Tensor::allocate(DType::F32, shape);
  uint32_t state = 1;
  for (float& element : tensor.data<float>()) {
    state = state * 1664525 + 1013904223;
    const uint32_t number = state >> 28;
    element = number == 15 ? NAN : static_cast<float>(number % 5) - 2;
  }
  return tensor;
}

Tensor channels_moved_last(const Tensor& tensor) {
  std::vector<int64_t> permutation(static_cast<size_t>(tensor.rank()));
  std::iota(permutation.begin(), permutation.end(), 0);
  std::rotate(permutation.begin() + 1, permutation.begin() + 2, permutation.end());
  return run_kernel("Transpose", {{"perm", permutation}}, {tensor})[0];
}

TEST(PoolGradient, GoesToTheFirstLargestElement) {
  struct Case {
    Shape x;
    std::vector<int64_t> kernel, strides, pads;
    int64_t ceil_mode;
  };
  const Case cases[] = {
      {{2, 3, 8, 8}, {2, 2}, {2, 2}, {0, 0, 0, 0}, 0},
      {{1, 4, 9, 7}, {3, 3}, {2, 2}, {1, 1, 1, 1}, 0},
      {{1, 16, 10, 10}, {3, 3}, {1, 1}, {0, 0, 0, 0}, 0},
      {{1, 8, 10, 10}, {3, 3}, {2, 2}, {0, 0, 0, 0}, 1},
      {{2, 4, 30}, {5}, {2}, {2, 2}, 0},
      {{1, 5, 6, 6, 7}, {2, 2, 3}, {2, 2, 2}, {0, 0, 1, 0, 0, 1}, 0},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(to_string(c.x));
    const AttributeSet attributes{
        {"kernel_shape", c.kernel}, {"strides", c.strides}, {"pads", c.pads}, {"ceil_mode", c.ceil_mode}};
    const Tensor x = few_numbers(c.x);
    const std::vector<Tensor> pooled = run_kernel("MaxPool", attributes, {x}, 2);
    Tensor dy = Tensor::allocate(DType::F32, pooled[0].shape());
    std::iota(dy.data<float>().begin(), dy.data<float>().end(), 1.0F);
    Tensor expected = Tensor::zeros(DType::F32, c.x);
    for (int64_t i = 0; i < dy.size(); ++i) {
      expected.data<float>()[static_cast<size_t>(pooled[1].data<int64_t>()[i])] += dy.data<float>()[i];
    }
    const Tensor dx = run_kernel("LoweredMaxPoolGradient", attributes, {x, dy})[0];
    EXPECT_TRUE(Tensor::identical(dx, expected));
    const Tensor last = run_kernel("LoweredMaxPoolGradient", attributes.with("channels_last", int64_t{1}),
                                   {channels_moved_last(x), channels_moved_last(dy)})[0];
    EXPECT_TRUE(Tensor::identical(last, channels_moved_last(expected)));
  }
}

}  // namespace
}  // namespace anfora
