#include "prepare_kernel.h"

namespace anfora {
namespace {

struct Case {
  std::vector<int64_t> x, w;
  AttributeSet attributes;
};

AttributeSet geometry(std::vector<int64_t> strides, std::vector<int64_t> pads, std::vector<int64_t> dilations,
                      int64_t group) {
  return {{"strides", strides}, {"pads", pads}, {"dilations", dilations}, {"group", group}};
}

const std::vector<Case> kCases = {
    {{1, 3, 20, 21}, {8, 3, 7, 7}, geometry({2, 2}, {3, 3, 3, 3}, {1, 1}, 1)},
    {{2, 16, 9, 9}, {32, 16, 1, 1}, geometry({1, 1}, {0, 0, 0, 0}, {1, 1}, 1)},
    {{2, 16, 9, 9}, {32, 16, 1, 1}, geometry({2, 2}, {0, 0, 0, 0}, {1, 1}, 1)},
    {{2, 16, 9, 10}, {16, 16, 3, 3}, geometry({1, 1}, {1, 1, 1, 1}, {1, 1}, 1)},
    {{1, 5, 9, 10}, {7, 5, 3, 2}, geometry({2, 3}, {1, 0, 2, 1}, {2, 1}, 1)},
    {{1, 32, 12, 12}, {32, 1, 3, 3}, geometry({1, 1}, {1, 1, 1, 1}, {1, 1}, 32)},
    {{1, 6, 12, 12}, {12, 1, 5, 5}, geometry({2, 2}, {2, 2, 2, 2}, {1, 1}, 6)},
    {{2, 8, 7, 7}, {4, 2, 3, 3}, geometry({1, 1}, {1, 1, 1, 1}, {1, 1}, 4)},
    {{1, 4, 30}, {6, 4, 5}, geometry({2}, {2, 2}, {1}, 1)},
    {{2, 32, 50}, {32, 1, 3}, geometry({1}, {8, 8}, {8}, 32)},
    {{1, 20, 31}, {20, 1, 5}, geometry({2}, {4, 0}, {1}, 20)},
    {{1, 4, 5, 6, 7}, {6, 4, 3, 3, 3}, geometry({1, 1, 2}, {1, 1, 1, 1, 1, 1}, {1, 1, 1}, 1)},
};

Tensor with_channels_last(const std::vector<int64_t>& shape, int seed) {
  std::vector<int64_t> last = shape;
  std::rotate(last.begin() + 1, last.begin() + 2, last.end());
  return random_tensor(last, seed);
}

TEST(OnednnConvolution, AgreesWithTheReference) {
  for (const Case& c : kCases) {
    Tensor x = random_tensor(c.x, 1), w = random_tensor(c.w, 2), b = random_tensor({c.w[0]}, 3);
    expect_prepared("Conv", c.attributes, {x, w, b}, 1);
    expect_prepared("Conv", c.attributes, {x, w, b}, 1, true);
    expect_prepared("Conv", c.attributes, {x, w}, 2);
    Tensor last = with_channels_last(c.x, 1);
    AttributeSet lowered = c.attributes.with("channels_last", int64_t{1});
    expect_prepared("LoweredConv", lowered, {last, w, b}, 1);
    Tensor y = run_kernel("LoweredConv", lowered, {last, w, b})[0];
    Tensor z = random_tensor({y.shape().begin(), y.shape().end()}, 4);
    expect_prepared("LoweredConv", lowered.with("activation", std::string("Relu")), {last, w, b, z}, 1);
    expect_prepared("LoweredConv", lowered.with("activation", std::string("HardSwish")), {last, w, Tensor(), z}, 1);
  }
}

TEST(OnednnConvolution, Transposed) {
  for (const Case& c : kCases) {
    int64_t group = c.attributes.get_int("group", 1);
    // The weights of the adjoint: from w[0] channels to w[1] * group.
    std::vector<int64_t> x = c.x;
    x[1] = c.w[0];
    Tensor w = random_tensor(c.w, 2), b = random_tensor({c.w[1] * group}, 3);
    expect_prepared("ConvTranspose", c.attributes, {random_tensor(x, 1), w, b}, 1);
    std::vector<int64_t> padding(c.x.size() - 2, 0);
    padding[0] = c.attributes.get_ints("strides")[0] - 1;
    expect_prepared("ConvTranspose", c.attributes.with("output_padding", padding), {random_tensor(x, 1), w}, 1, true);
    expect_prepared("LoweredConvTranspose",
                    c.attributes.with("channels_last", int64_t{1}).with("activation", std::string("LeakyRelu")),
                    {with_channels_last(x, 1), w, b}, 1);
  }
}

// More input channels and taps than are summed at once: bias, addend and activation come after the last of them.
TEST(OnednnConvolution, TransposedWithLongSums) {
  const AttributeSet attributes = geometry({2, 2}, {1, 1, 1, 1}, {1, 1}, 1).with("channels_last", int64_t{1});
  const Tensor x = random_tensor({1, 4, 4, 512}, 1), w = random_tensor({512, 48, 4, 4}, 2), b = random_tensor({48}, 3);
  const Tensor z = random_tensor({1, 8, 8, 48}, 4);
  for (const Tensor& bias : {b, Tensor()}) {
    for (const Tensor& addend : {z, Tensor()}) {
      for (const char* activation : {"", "Relu", "Swish"}) {
        expect_prepared("LoweredConvTranspose", *activation ? attributes.with("activation", std::string(activation)) : attributes,
                        {x, w, bias, addend}, 1, false, 1e-4f);
      }
    }
  }
}

// Each channel by itself: strides, dilations and pads by which points of the result are reached by several elements, or by none.
TEST(OnednnConvolution, TransposedDepthwise) {
  struct Axis {
    int64_t kernel, stride, dilation, before, after, padding;
  };
  for (int64_t channels : {8, 20, 64}) {
    for (const Axis& a : std::vector<Axis>{{4, 2, 1, 1, 1, 0}, {3, 2, 1, 1, 0, 1}, {2, 3, 1, 0, 0, 2}, {3, 1, 2, 2, 2, 0}, {5, 2, 3, 0, 4, 0}}) {
      AttributeSet attributes{{"channels_last", int64_t{1}}, {"group", channels}};
      const auto axes = [&](int64_t of_first, int64_t of_second) { return std::vector<int64_t>{of_first, of_second}; };
      attributes = attributes.with("strides", axes(a.stride, 2)).with("dilations", axes(a.dilation, 1)).with("output_padding", axes(a.padding, 0));
      attributes = attributes.with("pads", std::vector<int64_t>{a.before, 1, a.after, 0});
      const Tensor x = random_tensor({2, 5, 6, channels}, 1), w = random_tensor({channels, 1, a.kernel, 4}, 2), b = random_tensor({channels}, 3);
      const Tensor y = run_kernel("LoweredConvTranspose", attributes, {x, w})[0];
      const Tensor z = random_tensor({y.shape().begin(), y.shape().end()}, 4);
      kernels::KernelData data{"LoweredConvTranspose", attributes, {{true, DType::F32, x.shape(), {}}, {true, DType::F32, w.shape(), w}}, 1};
      ASSERT_TRUE(kernels::onednn_kernels().prepare(data));
      EXPECT_EQ(data.implementation, "loops:depthwise");
      expect_prepared("LoweredConvTranspose", attributes, {x, w}, 1);
      expect_prepared("LoweredConvTranspose", attributes.with("activation", std::string("Relu")), {x, w, b, z}, Constants{1, 2});
      expect_prepared("LoweredConvTranspose", attributes, {x, w, b}, 1, true);
      expect_prepared("LoweredConvTranspose", attributes.with("activation", std::string("Swish")), {x, w, b}, 1);  // by the library
    }
    const AttributeSet row{{"channels_last", int64_t{1}}, {"group", channels}, {"strides", std::vector<int64_t>{2}}};
    expect_prepared("LoweredConvTranspose", row, {random_tensor({1, 9, channels}, 1), random_tensor({channels, 1, 3}, 2)}, 1);
  }
}

TEST(OnednnConvolution, EveryActivation) {
  Tensor x = random_tensor({1, 5, 5, 8}, 1), w = random_tensor({16, 8, 3, 3}, 2);
  AttributeSet attributes{{"channels_last", int64_t{1}}};
  for (const char* name : {"Relu", "LeakyRelu", "Elu", "Clip", "Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "Swish",
                           "Gelu", "GeluTanh", "Softplus", "Mish", "Abs"}) {
    SCOPED_TRACE(name);
    expect_prepared("LoweredConv", attributes.with("activation", std::string(name)), {x, w}, 1);
  }
  expect_prepared(
      "LoweredConv",
      attributes.with("activation", std::string("Clip")).with("activation_alpha", 0.0f).with("activation_beta", 1.5f),
      {x, w}, 1);
}

TEST(OnednnConvolution, ShapesMayChangeBetweenRuns) {
  AttributeSet attributes = geometry({1, 1}, {1, 1, 1, 1}, {1, 1}, 1);
  Tensor w = random_tensor({8, 4, 3, 3}, 2);
  kernels::InputDescription x{true, DType::F32, Shape{-1, 4, -1, -1}, {}};
  kernels::InputDescription weights{true, DType::F32, w.shape(), w};
  std::vector<kernels::InputDescription> inputs{x, weights};
  kernels::KernelData data{"Conv", attributes, inputs, 1};
  const auto kernel = kernels::onednn_kernels().prepare(data);
  ASSERT_TRUE(kernel);
  kernels::PreparedRun prepared(*kernel);
  for (int64_t size : {5, 6, 5, 0, 7, 5, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 5}) {
    Tensor image = random_tensor({size % 3, 4, size, size + 1}, static_cast<int>(size));
    Datum image_datum(image), weights_datum(w);
    std::vector<const Datum*> pointers{&image_datum, &weights_datum};
    std::vector<Datum> results(1);
    prepared.run(attributes, pointers, results);
    expect_close(results[0].tensor(), run_kernel("Conv", attributes, {image, w})[0], 1e-5f);
  }
}

// Where only the batch is open, weights are packed for a single image, and their elements may be gone before the first run.
TEST(OnednnConvolution, OpenBatchesKeepPackedWeightsAlone) {
  struct Case {
    const char* op;
    std::vector<int64_t> x, w;  // of one image
    int64_t groups;
  };
  const std::vector<Case> cases = {{"Conv", {1, 16, 9, 8}, {32, 16, 3, 3}, 1}, {"Conv", {1, 16, 9, 8}, {32, 8, 3, 3}, 2}, {"Conv", {1, 32, 50}, {32, 1, 3}, 32},
                                   {"ConvTranspose", {1, 16, 9, 8}, {16, 24, 3, 3}, 1}, {"ConvTranspose", {1, 16, 9, 8}, {16, 12, 3, 3}, 2}};
  for (const Case& c : cases) {
    SCOPED_TRACE(std::string(c.op) + " in groups: " + std::to_string(c.groups));
    const AttributeSet attributes = AttributeSet{{"group", c.groups}};
    const Tensor w = random_tensor(c.w, 2);
    Shape open(c.x.begin(), c.x.end());
    open[0] = -1;
    kernels::KernelData data{c.op, attributes, {{true, DType::F32, open, {}}, {true, DType::F32, w.shape(), w}}, 1};
    const auto kernel = kernels::onednn_kernels().prepare(data);
    ASSERT_TRUE(kernel);
    EXPECT_TRUE(kernel->has_packed(1) || c.op == std::string("ConvTranspose"));  // some processors have no kernel for that
    const Tensor left = kernel->has_packed(1) ? Tensor::view(DType::F32, w.shape(), nullptr, nullptr) : w;
    data.inputs[1].constant = left;
    kernels::PreparedRun prepared(*kernel);
    for (int64_t batch : {2, 1, 0, 3}) {
      std::vector<int64_t> dims = c.x;
      dims[0] = batch;
      const Tensor x = random_tensor(dims, 1);
      const Datum given(x), weights(left);
      const std::vector<const Datum*> pointers{&given, &weights};
      std::vector<Datum> results(1);
      prepared.run(attributes, pointers, results);
      expect_close(results[0].tensor(), run_kernel(c.op, attributes, {x, w})[0], 1e-5f);
    }
  }
}

TEST(OnednnConvolution, NarrowFloats) {
  for (DType dtype : {DType::BF16, DType::F16}) {
    Tensor x = random_tensor({1, 8, 6, 6}, 1, dtype), w = random_tensor({8, 8, 3, 3}, 2, dtype);
    kernels::InputDescription first{true, dtype, x.shape(), {}}, second{true, dtype, w.shape(), w};
    std::vector<kernels::InputDescription> inputs{first, second};
    AttributeSet none;
    kernels::KernelData data{"Conv", none, inputs, 1};
    if (!kernels::onednn_kernels().prepare(data)) continue;  // not on this processor
    expect_prepared("Conv", none, {x, w}, 1, false, dtype == DType::F16 ? 1e-3f : 1e-2f);
  }
}

}  // namespace
}  // namespace anfora
