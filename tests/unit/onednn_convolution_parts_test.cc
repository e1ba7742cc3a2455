// Convolutions whose rows are parts for several threads.
#include "kernels/onednn/convolution_parts.h"

#include "prepare_kernel.h"

namespace anfora {
namespace {

using kernels::onednn::ConvolutionPart;
using kernels::onednn::ConvolutionShape;
using kernels::onednn::parts_of;

// Of a window of 3 rows (and as many columns) that moves by `stride`, with its taps `dilation` apart.
ConvolutionShape image_of(int64_t batch, int64_t rows, int64_t columns, int64_t channels, int64_t stride, int64_t dilation) {
  auto after = [&](int64_t extent) { return (extent + 1 - (2 * dilation + 1)) / stride + 1; };  // with padding: 1 row ahead
  return {.x = {batch, channels, rows, columns},
          .y = {batch, channels, after(rows), after(columns)},
          .w = {channels, channels, 3, 3},
          .strides = {stride, stride},
          .dilations = {dilation - 1, dilation - 1},
          .pad_begin = {1, 1},
          .pad_end = {0, 0}};
}

TEST(ConvolutionParts, CoverAllRowsOnce) {
  for (const auto& [rows, threads] : {std::pair{51, 2}, {51, 8}, {99, 3}, {149, 2}, {195, 8}}) {
    for (const int64_t batch : {1, 3, 40}) {
      for (const int64_t stride : {1, 2}) {
        const ConvolutionShape whole = image_of(batch, rows, 100, 64, stride, 2);
        const std::vector<ConvolutionPart> parts = parts_of(whole, threads);
        ASSERT_GE(std::ssize(parts), 2 * threads);
        int64_t row = 0;
        for (const ConvolutionPart& part : parts) {
          const ConvolutionPart::Extents& extents = part.extents;
          EXPECT_EQ(part.image * whole.y[2] + part.first_output, row);
          row += extents.outputs;
          EXPECT_EQ(part.first_input - extents.pad_begin, part.first_output * stride - 1);
          EXPECT_EQ(extents.pad_begin + extents.inputs + extents.pad_end, (extents.outputs - 1) * stride + 5);
          EXPECT_LE(part.first_input + extents.inputs, rows);
        }
        EXPECT_EQ(row, batch * whole.y[2]);
      }
    }
  }
}

TEST(ConvolutionParts, AreAsLongAsEachOther) {
  const std::vector<ConvolutionPart> parts = parts_of(image_of(1, 57, 57, 64, 1, 1), 2);
  EXPECT_EQ(parts.size(), 14);
  for (const ConvolutionPart& part : parts) EXPECT_EQ(part.extents.outputs, 4);
}

TEST(ConvolutionParts, AreNoneWhereTheWholeIsBetter) {
  EXPECT_TRUE(parts_of(image_of(1, 58, 58, 64, 1, 1), 1).empty());
  EXPECT_TRUE(parts_of(image_of(1, 9, 9, 512, 1, 1), 2).empty());      // all weights for a few pixels
  EXPECT_TRUE(parts_of(image_of(1, 60, 60, 2, 1, 1), 2).empty());      // little to do
  EXPECT_TRUE(parts_of(image_of(1, 18, 60, 64, 1, 1), 2).empty());     // nine rows for one thread, eight for the other
  EXPECT_TRUE(parts_of(image_of(1000, 60, 60, 64, 1, 1), 2).empty());  // there is enough for each thread
}

TEST(ConvolutionParts, AgreeWithTheReference) {
  struct Case {
    std::vector<int64_t> x, w;  // channels first
    std::vector<int64_t> strides, pads, dilations;
    int64_t groups = 1;
  };
  const std::vector<Case> cases = {
      {{1, 32, 40, 40}, {64, 32, 1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}},
      {{1, 32, 41, 40}, {48, 32, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}},
      {{3, 16, 45, 30}, {48, 16, 3, 3}, {2, 2}, {0, 1, 2, 1}, {1, 1}},
      {{1, 16, 50, 50}, {40, 16, 3, 3}, {1, 1}, {2, 2, 2, 2}, {2, 2}},
      {{1, 3, 90, 90}, {32, 3, 7, 7}, {2, 2}, {3, 3, 3, 3}, {1, 1}},
      {{20, 16, 20, 20}, {32, 16, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}},
      {{1, 64, 60, 60}, {64, 32, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 2},
      {{1, 128, 80, 80}, {128, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 128},
      {{1, 32, 2000}, {32, 32, 5}, {1}, {2, 2}, {1}},
      {{1, 16, 12, 20, 20}, {16, 16, 3, 3, 3}, {1, 1, 1}, {1, 1, 1, 1, 1, 1}, {1, 1, 1}},
  };
  for (const int threads : {2, 3}) {
    with_threads(threads, [&] {
      for (const Case& c : cases) {
        const AttributeSet attributes{{"strides", c.strides}, {"pads", c.pads}, {"dilations", c.dilations}, {"group", c.groups}, {"channels_last", int64_t{1}}};
        std::vector<int64_t> last = c.x;
        std::rotate(last.begin() + 1, last.begin() + 2, last.end());
        const Tensor x = random_tensor(last, 1), w = random_tensor(c.w, 2), b = random_tensor({c.w[0]}, 3);
        const Shape y = run_kernel("LoweredConv", attributes, {x, w, b})[0].shape();
        const Tensor z = random_tensor({y.begin(), y.end()}, 4);
        expect_prepared("LoweredConv", attributes, {x, w, b}, 1);
        expect_prepared("LoweredConv", attributes.with("activation", std::string("Relu")), {x, w, b, z}, {1, 2});
        expect_prepared("LoweredConv", attributes.with("activation", std::string("HardSwish")), {x, w, Tensor(), z}, 1);
      }
    });
  }
}

}  // namespace
}  // namespace anfora
