// The gradient of Conv by its weights, beside the convolution that it is with images and channels exchanged.
#include <numeric>

#include "prepare_kernel.h"

namespace anfora {
namespace {

struct WeightGradientCase {
  Shape x, w;
  std::vector<int64_t> strides, pads, dilations;
  int64_t group = 1;

  AttributeSet convolution() const { return {{"strides", strides}, {"pads", pads}, {"dilations", dilations}, {"group", group}}; }
  // Of what the windows read.
  AttributeSet gradient(const Tensor& y) const {
    std::vector<int64_t> read = pads;
    for (size_t i = 0; i + 2 < x.size(); ++i) {
      read[x.size() - 2 + i] = (y.shape()[i + 2] - 1) * strides[i] + (w[i + 2] - 1) * dilations[i] + 1 - pads[i] - x[i + 2];
    }
    return convolution().with("pads", read);
  }
};

const WeightGradientCase kWeightGradientCases[] = {
    {{2, 3, 8, 8}, {4, 3, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}},
    {{2, 16, 9, 9}, {32, 16, 1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}},
    {{1, 16, 9, 9}, {32, 16, 1, 1}, {2, 2}, {0, 0, 0, 0}, {1, 1}},
    {{3, 5, 20, 21}, {8, 5, 7, 7}, {2, 2}, {3, 3, 3, 3}, {1, 1}},
    {{2, 5, 10, 11}, {7, 5, 3, 2}, {2, 3}, {1, 0, 2, 1}, {2, 1}},
    {{2, 32, 12, 12}, {32, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 32},
    {{2, 6, 12, 12}, {12, 1, 5, 5}, {2, 2}, {2, 2, 2, 2}, {1, 1}, 6},
    {{2, 8, 7, 7}, {4, 2, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 4},
    {{1, 1, 28, 28}, {16, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}},
    {{2, 4, 30}, {6, 4, 5}, {2}, {2, 2}, {1}},
    {{1, 4, 5, 6, 7}, {6, 4, 3, 3, 3}, {1, 1, 2}, {1, 1, 1, 1, 1, 1}, {1, 1, 1}},
};

std::vector<int64_t> channels_to_last(size_t rank) {
  std::vector<int64_t> permutation(rank);
  std::iota(permutation.begin(), permutation.end(), 0);
  std::rotate(permutation.begin() + 1, permutation.begin() + 2, permutation.end());
  return permutation;
}

Tensor transposed_by(const Tensor& tensor, std::vector<int64_t> permutation) {
  return run_kernel("Transpose", {{"perm", std::move(permutation)}}, {tensor})[0];
}

double sum_of_products(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (size_t i = 0; i < a.data<double>().size(); ++i) sum += a.data<double>()[i] * b.data<double>()[i];
  return sum;
}

// Conv is linear in its weights: ⟨dY, Conv(X, V)⟩ = ⟨dW, V⟩ for each V, and there are as many V as weights.
TEST(ConvWeightGradient, IsTheAdjointOfConv) {
  for (const WeightGradientCase& c : kWeightGradientCases) {
    SCOPED_TRACE(to_string(c.x) + " " + to_string(c.w));
    const Tensor x = random_tensor({c.x.begin(), c.x.end()}, 1, DType::F64);
    Tensor v = Tensor::zeros(DType::F64, c.w);
    const Tensor y = run_kernel("Conv", c.convolution(), {x, v})[0];
    const Tensor dy = random_tensor({y.shape().begin(), y.shape().end()}, 2, DType::F64);
    const Tensor dw = run_kernel("LoweredConvWeightGradient", c.gradient(y), {x, dy})[0];
    ASSERT_EQ(dw.shape(), v.shape());
    for (size_t i = 0; i < v.data<double>().size(); i += 7) {
      v.data<double>()[i] = 1;
      EXPECT_NEAR(dw.data<double>()[i], sum_of_products(dy, run_kernel("Conv", c.convolution(), {x, v})[0]), 1e-10);
      v.data<double>()[i] = 0;
    }
    const std::vector<int64_t> last = channels_to_last(c.x.size());
    const Tensor of_last = run_kernel("LoweredConvWeightGradient", c.gradient(y).with("channels_last", int64_t{1}),
                                      {transposed_by(x, last), transposed_by(dy, last)})[0];
    EXPECT_TRUE(Tensor::identical(of_last, dw));
  }
}

TEST(ConvWeightGradient, OfNothingIsZero) {
  const Tensor dw = run_kernel("LoweredConvWeightGradient", {},
                               {Tensor::zeros(DType::F32, Shape{0, 2, 5, 5}), Tensor::zeros(DType::F32, Shape{0, 4, 3, 3})})[0];
  EXPECT_TRUE(Tensor::identical(dw, Tensor::zeros(DType::F32, Shape{4, 2, 3, 3})));
  const Tensor none = run_kernel("LoweredConvWeightGradient", {}, {Tensor::zeros(DType::F32, Shape{1, 2, 1}), Tensor::zeros(DType::F32, Shape{1, 4, 2})})[0];
  EXPECT_EQ(none.shape(), (Shape{4, 2, 0}));
}

TEST(OnednnConvWeightGradient, AgreesWithTheReference) {
  for (const WeightGradientCase& c : kWeightGradientCases) {
    SCOPED_TRACE(to_string(c.x) + " " + to_string(c.w));
    const Tensor x = random_tensor({c.x.begin(), c.x.end()}, 1), w = random_tensor({c.w.begin(), c.w.end()}, 2);
    const Tensor y = run_kernel("Conv", c.convolution(), {x, w})[0];
    const Tensor dy = random_tensor({y.shape().begin(), y.shape().end()}, 3);
    expect_prepared("LoweredConvWeightGradient", c.gradient(y), {x, dy}, 2);
    expect_prepared("LoweredConvWeightGradient", c.gradient(y), {x, dy}, 2, true);
    const std::vector<int64_t> last = channels_to_last(c.x.size());
    const AttributeSet lowered = c.gradient(y).with("channels_last", int64_t{1});
    expect_prepared("LoweredConvWeightGradient", lowered, {transposed_by(x, last), transposed_by(dy, last)}, 2);
    expect_prepared("LoweredConvWeightGradient", lowered, {transposed_by(x, last), transposed_by(dy, last)}, 2, true);
  }
}

TEST(OnednnConvWeightGradient, NarrowFloats) {
  const AttributeSet attributes;
  for (DType dtype : {DType::BF16, DType::F16}) {
    const Tensor x = random_tensor({2, 8, 6, 6}, 1, dtype), dy = random_tensor({2, 8, 4, 4}, 2, dtype);
    const Tensor wide_x = run_kernel("Cast", {{"to", int64_t{1}}}, {x})[0], wide_dy = run_kernel("Cast", {{"to", int64_t{1}}}, {dy})[0];
    const float tolerance = dtype == DType::F16 ? 1e-3f : 1e-2f;
    const Tensor dw = run_kernel("LoweredConvWeightGradient", attributes, {x, dy})[0];
    const Tensor wide = run_kernel("LoweredConvWeightGradient", attributes, {wide_x, wide_dy})[0];
    expect_close(run_kernel("Cast", {{"to", int64_t{1}}}, {dw})[0], wide, tolerance);
    std::vector<kernels::InputDescription> inputs{{true, dtype, x.shape(), {}}, {true, dtype, dy.shape(), {}}};
    kernels::KernelData data{"LoweredConvWeightGradient", attributes, inputs, 1};
    if (!kernels::onednn_kernels().prepare(data)) continue;  // not on this processor
    expect_prepared("LoweredConvWeightGradient", attributes, {x, dy}, 2, false, tolerance);
  }
}

}  // namespace
}  // namespace anfora
