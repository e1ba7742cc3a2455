#include "prepare_kernel.h"

namespace anfora {
namespace {

using Dims = std::vector<int64_t>;

TEST(OnednnPooling, OfBytesIsTheReference) {
  for (DType type : {DType::I8, DType::U8}) {
    Tensor x = Tensor::allocate(type, Shape{2, 9, 8, 17});
    for (int64_t i = 0; i < x.size(); ++i) static_cast<uint8_t*>(x.raw())[i] = static_cast<uint8_t>(i * 37 + i / 5);
    const AttributeSet attributes{
        {"kernel_shape", Dims{3, 2}}, {"strides", Dims{2, 1}}, {"pads", Dims{1, 1, 1, 0}}, {"channels_last", int64_t{1}}};
    expect_prepared("LoweredMaxPool", attributes, {x}, 1, false, 0);
  }
}

TEST(OnednnPooling, AgreesWithTheReference) {
  struct Case {
    Dims x, kernel, strides, pads;
    int64_t ceil_mode;
  };
  const Case cases[] = {
      {{1, 16, 20, 21}, {3, 3}, {2, 2}, {1, 1, 1, 1}, 0},
      {{2, 5, 9, 9}, {2, 2}, {2, 2}, {0, 0, 0, 0}, 0},
      {{1, 32, 8, 9}, {3, 2}, {1, 2}, {1, 0, 1, 1}, 0},
      {{1, 8, 10, 10}, {3, 3}, {2, 2}, {0, 0, 0, 0}, 1},
      {{1, 4, 30}, {5}, {2}, {2, 2}, 0},
      {{1, 16, 6, 6, 7}, {2, 2, 3}, {2, 2, 2}, {0, 0, 1, 0, 0, 1}, 0},
      {{1, 48, 7, 7}, {7, 7}, {1, 1}, {0, 0, 0, 0}, 0},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(to_string(c.x));
    AttributeSet attributes{
        {"kernel_shape", c.kernel}, {"strides", c.strides}, {"pads", c.pads}, {"ceil_mode", c.ceil_mode}};
    const Tensor x = random_tensor(c.x, 1);
    Dims last = c.x;
    std::rotate(last.begin() + 1, last.begin() + 2, last.end());
    Tensor x_last = random_tensor(last, 1);
    for (const char* op : {"LoweredMaxPool", "LoweredAveragePool"}) {
      const AttributeSet channels_last = attributes.with("channels_last", int64_t{1});
      expect_prepared(op, channels_last, {x_last}, 1);
      expect_prepared(op, channels_last, {x_last}, 1, true);
    }
    if (!c.ceil_mode)
      expect_prepared("LoweredAveragePool", attributes.with("channels_last", int64_t{1}).with("count_include_pad", int64_t{1}), {x_last}, 1);
    // With channels first, the library has loops for one pixel at a time unless there is AVX-512, and for one axis always.
    for (const char* op : {"MaxPool", "AveragePool"}) {
      kernels::KernelData data{op, attributes, {{.present = true, .dtype = DType::F32, .shape = x.shape(), .constant = {}}}, 1};
      if (kernels::onednn_kernels().prepare(data)) expect_prepared(op, attributes, {x}, 1);
    }
  }
}

}  // namespace
}  // namespace anfora
