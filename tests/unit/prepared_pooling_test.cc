#include <array>
#include <cmath>
#include <limits>

#include "kernels/reference/prepared.h"
#include "prepare_kernel.h"

namespace anfora {
namespace {

using Dims = std::vector<int64_t>;

void expect_loops(const char* op, const AttributeSet& attributes, const Tensor& x, float tolerance) {
  kernels::KernelData data{
      op, attributes, {{.present = true, .dtype = x.dtype(), .shape = x.shape(), .constant = {}}}, 1};
  ASSERT_TRUE(kernels::prepared_reference_kernels().prepare(data));
  EXPECT_EQ(data.implementation, "loops:pooling");
  for (bool are_sizes_open : {false, true})
    expect_prepared(op, attributes, {x}, 1, are_sizes_open, tolerance, 1, kernels::prepared_reference_kernels());
}

// Of pixels, whose channels are last, and of planes.
void expect_pooled(const char* op, const AttributeSet& attributes, const Tensor& x, float tolerance = 1e-6f) {
  expect_loops(op, attributes.with("channels_last", int64_t{1}), x, tolerance);
  expect_loops(op, attributes, x, tolerance);
}

TEST(PreparedPooling, OfBytesIsTheReference) {
  for (DType type : {DType::I8, DType::U8}) {
    Tensor x = Tensor::allocate(type, Shape{2, 9, 8, 171});
    for (int64_t i = 0; i < x.size(); ++i) static_cast<uint8_t*>(x.raw())[i] = static_cast<uint8_t>(i * 37 + i / 5);
    expect_pooled("LoweredMaxPool", {{"kernel_shape", Dims{3, 2}}, {"strides", Dims{2, 1}}, {"pads", Dims{1, 1, 1, 0}}},
                  x, 0);
  }
}

TEST(PreparedPooling, KeepsWhatIsNoNumber) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  Tensor x = random_tensor({1, 7, 6, 13}, 1);
  float* elements = x.data<float>().data();
  for (int64_t i = 0; i < x.size(); i += 17) elements[i] = i % 3 == 0 ? kNaN : -kInfinity;
  for (int64_t channels_last : {0, 1}) {
    const AttributeSet attributes{
        {"kernel_shape", Dims{3, 3}}, {"strides", Dims{2, 2}}, {"channels_last", channels_last}};
    kernels::KernelData data{
        "LoweredMaxPool", attributes, {{.present = true, .dtype = DType::F32, .shape = x.shape(), .constant = {}}}, 1};
    const auto kernel = kernels::prepared_reference_kernels().prepare(data);
    const Datum input(x);
    const std::array inputs{&input};
    std::array<Datum, 1> outputs;
    kernels::PreparedRun(*kernel).run(attributes, inputs, outputs);
    const Tensor expected = run_kernel("LoweredMaxPool", attributes, {x})[0];
    const std::vector<float> y = values_of<float>(outputs[0].tensor()), wanted = values_of<float>(expected);
    ASSERT_EQ(y.size(), wanted.size());
    for (size_t i = 0; i < y.size(); ++i) {
      if (std::isnan(wanted[i])) {
        EXPECT_TRUE(std::isnan(y[i])) << i;
      } else {
        EXPECT_EQ(y[i], wanted[i]) << i;
      }
    }
  }
}

TEST(PreparedPooling, AgreesWithTheReference) {
  struct Case {
    Dims x, kernel, strides, pads;
    int64_t ceil_mode = 0;
    Dims dilations = {};
  };
  const Case cases[] = {
      {{1, 16, 20, 21}, {3, 3}, {2, 2}, {1, 1, 1, 1}},
      {{2, 5, 9, 9}, {2, 2}, {2, 2}, {0, 0, 0, 0}},
      {{1, 32, 8, 9}, {3, 2}, {1, 2}, {1, 0, 1, 1}},
      {{1, 8, 10, 10}, {3, 3}, {2, 2}, {0, 0, 0, 0}, 1},
      {{1, 4, 30}, {5}, {2}, {2, 2}},
      {{1, 16, 6, 6, 7}, {2, 2, 3}, {2, 2, 2}, {0, 0, 1, 0, 0, 1}},
      {{3, 75, 4, 5, 6}, {2, 3, 2}, {1, 2, 1}, {1, 1, 1, 0, 1, 1}},
      {{1, 48, 7, 7}, {7, 7}, {1, 1}, {0, 0, 0, 0}},
      {{1, 33, 12, 11}, {3, 3}, {1, 2}, {2, 1, 2, 1}, 0, {2, 1}},
      {{1, 9, 2, 3}, {4, 5}, {3, 4}, {3, 4, 3, 4}},
      {{1, 40, 33, 30}, {31, 29}, {2, 1}, {0, 0, 0, 0}},
      {{1, 8, 3, 4}, {1000, 90000}, {700, 1}, {998, 89999, 0, 0}},
      {{2, 6, 17, 100}, {3, 3}, {1, 1}, {1, 1, 1, 1}},
      {{1, 3, 11, 50}, {2, 4}, {3, 3}, {1, 2, 0, 2}, 1},
      {{1, 2, 12, 41}, {3, 3}, {2, 2}, {-1, -2, 0, -1}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(to_string(c.x));
    AttributeSet attributes{
        {"kernel_shape", c.kernel}, {"strides", c.strides}, {"pads", c.pads}, {"ceil_mode", c.ceil_mode}};
    if (!c.dilations.empty()) attributes = attributes.with("dilations", c.dilations);
    const Tensor x = random_tensor(c.x, 1);
    Dims last = c.x;
    std::rotate(last.begin() + 1, last.begin() + 2, last.end());
    const Tensor x_last = random_tensor(last, 1);
    const AttributeSet with_padding = attributes.with("count_include_pad", int64_t{1});
    for (const char* op : {"LoweredMaxPool", "LoweredAveragePool"})
      expect_loops(op, attributes.with("channels_last", int64_t{1}), x_last, 1e-6f);
    expect_loops("LoweredAveragePool", with_padding.with("channels_last", int64_t{1}), x_last, 1e-6f);
    for (const char* op : {"MaxPool", "AveragePool"}) expect_loops(op, attributes, x, 1e-6f);
    expect_loops("AveragePool", with_padding, x, 1e-6f);
    // With channels first, the library has loops for one pixel at a time unless there is AVX-512, and for one axis always.
    for (const char* op : {"MaxPool", "AveragePool"}) {
      kernels::KernelData data{
          op, attributes, {{.present = true, .dtype = DType::F32, .shape = x.shape(), .constant = {}}}, 1};
      if (kernels::onednn_kernels().prepare(data)) expect_prepared(op, attributes, {x}, 1);
    }
  }
}

}  // namespace
}  // namespace anfora
