#include "kernels/reference/window.h"

#include <gtest/gtest.h>

#include "anfora/error.h"
#include "prepare_kernel.h"

namespace anfora::kernels {
namespace {

Window make_window(AttributeSet attributes, std::vector<int64_t> spatial) {
  Window window = read_window(attributes, spatial.size());
  resolve_window(window, spatial);
  return window;
}

TEST(Window, CeilModeIgnoresAWindowThatStartsInThePadding) {
  AttributeSet attributes{{"kernel_shape", std::vector<int64_t>{1}},
                          {"strides", std::vector<int64_t>{2}},
                          {"pads", std::vector<int64_t>{0, 1}},
                          {"ceil_mode", int64_t{1}}};
  // Starts at 0, 2 and 4, where the padding is.
  EXPECT_EQ(make_window(attributes, {4}).axes[0].output, 2);
  EXPECT_EQ(make_window(attributes, {5}).axes[0].output, 3);
}

TEST(Window, SamePaddingPutsTheOddElementWhereItSays) {
  for (const char* mode : {"SAME_UPPER", "SAME_LOWER"}) {
    Window window = make_window({{"kernel_shape", std::vector<int64_t>{2}}, {"auto_pad", std::string(mode)}}, {5});
    EXPECT_EQ(window.axes[0].output, 5);
    EXPECT_EQ(window.axes[0].pad_begin, std::string(mode) == "SAME_LOWER" ? 1 : 0);
    EXPECT_EQ(window.axes[0].pad_begin + window.axes[0].pad_end, 1);
  }
}

// Both directions of the relation between outputs and taps agree with the definition.
TEST(Window, TapsAndOutputsInside) {
  for (int64_t kernel : {1, 2, 3}) {
    for (int64_t stride : {1, 2, 3}) {
      for (int64_t dilation : {1, 2}) {
        for (int64_t pad : {-1, 0, 2, 7}) {
          WindowAxis axis{kernel, stride, dilation, pad, pad, 6};
          axis.output = window_output(axis, AutoPad::NotSet, false, axis.input, axis.reach());
          if (axis.output <= 0) continue;
          for (int64_t o = 0; o < axis.output; ++o) {
            for (int64_t t = 0; t < kernel; ++t) {
              int64_t at = o * stride - pad + t * dilation;
              bool inside = at >= 0 && at < axis.input;
              WindowAxis::Taps taps = axis.taps_inside(o), outputs = axis.outputs_inside(t);
              EXPECT_EQ(t >= taps.first && t < taps.last, inside);
              EXPECT_EQ(o >= outputs.first && o < outputs.last, inside);
            }
          }
        }
      }
    }
  }
}

TEST(Window, AbsurdAttributesAreErrors) {
  auto with = [](const char* name, std::vector<int64_t> values) {
    return AttributeSet{{"kernel_shape", std::vector<int64_t>{3}}}.with(name, std::move(values));
  };
  EXPECT_THROW(make_window({}, {5}), Error);
  EXPECT_THROW(make_window(with("kernel_shape", {0}), {5}), Error);
  EXPECT_THROW(make_window(with("kernel_shape", {3, 3}), {5}), Error);
  EXPECT_THROW(make_window(with("kernel_shape", {int64_t{1} << 40}), {5}), Error);
  EXPECT_THROW(make_window(with("strides", {0}), {5}), Error);
  EXPECT_THROW(make_window(with("strides", {1, 1}), {5}), Error);
  EXPECT_THROW(make_window(with("dilations", {-1}), {5}), Error);
  EXPECT_THROW(make_window(with("dilations", {8}), {5}), Error);
  EXPECT_THROW(make_window(with("pads", {1}), {5}), Error);
  EXPECT_THROW(make_window(with("pads", {-9, 0}), {5}), Error);
  EXPECT_THROW(make_window(with("pads", {int64_t{1} << 62, int64_t{1} << 62}), {5}), Error);
  EXPECT_THROW(make_window(with("dilations", {1}).with("auto_pad", std::string("SAME")), {5}), Error);
}

// Pooling by a window that is wider than its input reads only the input.
TEST(Pooling, WindowsThatReachBeyondTheInput) {
  Tensor x = make_tensor<float>({1, 1, 3}, {1, -2, 4});
  AttributeSet attributes{{"kernel_shape", std::vector<int64_t>{5}}, {"pads", std::vector<int64_t>{2, 2}}};
  EXPECT_EQ(values_of<float>(run_kernel("MaxPool", attributes, {x})[0]), (std::vector<float>{4, 4, 4}));
  EXPECT_EQ(values_of<float>(run_kernel("AveragePool", attributes, {x})[0]), (std::vector<float>{1, 1, 1}));
  attributes = attributes.with("count_include_pad", int64_t{1});
  std::vector<float> fifth = values_of<float>(run_kernel("AveragePool", attributes, {x})[0]);
  for (float value : fifth) EXPECT_FLOAT_EQ(value, 0.6f);
}

// Maxima beside those whose places are wanted, averages beside convolutions with ones.
TEST(Pooling, LinesGiveWhatWindowsDo) {
  struct Case {
    std::vector<int64_t> image, kernel, strides, pads, dilations;
  };
  const Case cases[] = {
      {{30}, {5}, {2}, {2, 2}, {1}},
      {{1}, {3}, {1}, {1, 1}, {1}},
      {{17, 40}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}},
      {{12, 11}, {4, 3}, {1, 3}, {0, 2, 3, 1}, {2, 3}},
      {{9, 10}, {2, 3}, {1, 1}, {-1, -2, 0, -1}, {1, 1}},  // cropped
      {{6, 7, 9}, {2, 3, 2}, {2, 1, 2}, {0, 1, 1, 1, 0, 0}, {1, 2, 1}},
      {{13, 13}, {13, 13}, {1, 1}, {6, 6, 6, 6}, {1, 1}},
      {{4, 5}, {2, 300}, {3, 290}, {1, 293, 1, 295}, {1, 1}},  // wide strides
      {{6}, {2}, {1}, {40, 40}, {41}},                         // windows without the image
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(to_string(c.image));
    constexpr int64_t kChannels = 3;
    std::vector<int64_t> shape = c.image, ones_shape = c.kernel;
    shape.insert(shape.begin(), {2, kChannels}), ones_shape.insert(ones_shape.begin(), {kChannels, 1});
    const Tensor x = random_tensor(shape, 1);
    Tensor inside = x.clone(), ones = Tensor::allocate(DType::F32, ones_shape);
    std::ranges::fill(inside.data<float>(), 1.0f), std::ranges::fill(ones.data<float>(), 1.0f);
    const AttributeSet attributes{{"kernel_shape", c.kernel}, {"strides", c.strides}, {"pads", c.pads}, {"dilations", c.dilations}};
    EXPECT_TRUE(Tensor::identical(run_kernel("MaxPool", attributes, {x})[0], run_kernel("MaxPool", attributes, {x}, 2)[0]));

    const AttributeSet by_channel = attributes.with("group", kChannels);
    const Tensor sums = run_kernel("Conv", by_channel, {x, ones})[0], taps = run_kernel("Conv", by_channel, {inside, ones})[0];
    const Tensor averages = run_kernel("AveragePool", attributes, {x})[0],
                 padded = run_kernel("AveragePool", attributes.with("count_include_pad", int64_t{1}), {x})[0];
    ASSERT_EQ(averages.shape(), sums.shape());
    for (int64_t i = 0; i < sums.size(); ++i) {
      EXPECT_NEAR(averages.data<float>()[i], sums.data<float>()[i] / std::max(taps.data<float>()[i], 1.0f), 1e-5);
      EXPECT_NEAR(padded.data<float>()[i], sums.data<float>()[i] / static_cast<float>(ones.size() / kChannels), 1e-5);
    }
  }
}

TEST(Pooling, UnpoolingRefusesIndicesOutside) {
  Tensor x = make_tensor<float>({1, 1, 2}, {1, 2});
  AttributeSet attributes{{"kernel_shape", std::vector<int64_t>{2}}, {"strides", std::vector<int64_t>{2}}};
  EXPECT_EQ(values_of<float>(run_kernel("MaxUnpool", attributes, {x, make_tensor<int64_t>({1, 1, 2}, {1, 2})})[0]),
            (std::vector<float>{0, 1, 2, 0}));
  EXPECT_THROW(run_kernel("MaxUnpool", attributes, {x, make_tensor<int64_t>({1, 1, 2}, {1, 4})}), Error);
  EXPECT_THROW(run_kernel("MaxUnpool", attributes, {x, make_tensor<int64_t>({1, 1, 2}, {1, -1})}), Error);
}

// A transposed convolution is the adjoint of the convolution: <conv(x), y> = <x, conv_transpose(y)>.
TEST(Convolution, TransposedIsTheAdjoint) {
  auto filled = [](std::vector<int64_t> shape, int seed) {
    std::vector<float> values(static_cast<size_t>(element_count(shape)));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>((static_cast<int>(i) * 7 + seed) % 11 - 5);
    }
    return make_tensor<float>(shape, values);
  };
  for (int64_t stride : {1, 2}) {
    for (int64_t groups : {1, 2}) {
      AttributeSet attributes{{"strides", std::vector<int64_t>{stride, stride}},
                              {"dilations", std::vector<int64_t>{1, 2}},
                              {"pads", std::vector<int64_t>{1, 0, 1, 2}},
                              {"group", groups}};
      // Extents that every stride divides, so that no row of x is left over.
      Tensor x = filled({2, 4, 7, 9}, 1), w = filled({6, 4 / groups, 3, 3}, 2);
      Tensor conv = run_kernel("Conv", attributes, {x, w})[0];
      Tensor y = filled({conv.shape().begin(), conv.shape().end()}, 3);
      Tensor back = run_kernel("ConvTranspose", attributes, {y, w})[0];
      ASSERT_EQ(back.shape(), x.shape());
      double left = 0, right = 0;
      for (int64_t i = 0; i < y.size(); ++i) left += double{conv.data<float>()[i]} * y.data<float>()[i];
      for (int64_t i = 0; i < x.size(); ++i) right += double{back.data<float>()[i]} * x.data<float>()[i];
      EXPECT_EQ(left, right);
    }
  }
}

}  // namespace
}  // namespace anfora::kernels
