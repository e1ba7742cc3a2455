// Kernels that read all channels of some pixels: the same where the channels lie side by side and where they do not.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>

#include "run_kernel.h"

namespace anfora {
namespace {

Tensor random_floats(const Shape& shape, float most, unsigned seed) {
  Tensor tensor = Tensor::allocate(DType::F32, shape);
  std::ranges::generate(tensor.data<float>(), [chance = std::mt19937(seed), of = std::uniform_real_distribution<float>(-most, most)]() mutable { return of(chance); });
  return tensor;
}

TEST(GridSample, OfManyChannelsIsThatOfEach) {
  constexpr int64_t kImages = 2, kChannels = 11, kHeight = 9, kWidth = 7, kPixels = kHeight * kWidth;
  const Tensor images = random_floats({kImages, kChannels, kHeight, kWidth}, 1, 1), grid = random_floats({kImages, 13, 10, 2}, 1.4f, 2);
  constexpr int64_t kPlaces = 13 * 10;
  for (const char* mode : {"linear", "nearest", "cubic"}) {
    for (const char* padding : {"zeros", "border", "reflection"}) {
      SCOPED_TRACE(testing::Message() << mode << ", " << padding);
      const AttributeSet attributes{{"mode", mode}, {"padding_mode", padding}};
      const Tensor all = run_kernel("GridSample", attributes, {images, grid})[0];
      for (int64_t c = 0; c < kChannels; ++c) {
        Tensor channel = Tensor::allocate(DType::F32, Shape{kImages, 1, kHeight, kWidth});
        for (int64_t i = 0; i < kImages; ++i) std::copy_n(images.data<float>().data() + (i * kChannels + c) * kPixels, kPixels, channel.data<float>().data() + i * kPixels);
        const Tensor one = run_kernel("GridSample", attributes, {channel, grid})[0];
        for (int64_t i = 0; i < kImages; ++i) {
          const float* of_all = all.data<float>().data() + (i * kChannels + c) * kPlaces;
          EXPECT_TRUE(std::equal(of_all, of_all + kPlaces, one.data<float>().data() + i * kPlaces)) << "channel " << c << " of image " << i;
        }
      }
    }
  }
}

// Of many regions, the channels of a pixel are read side by side; of one, channel by channel.
TEST(RoiAlign, OfOneRegionIsThatAmongMany) {
  const Tensor image = random_floats({2, 9, 16, 20}, 1, 1);
  std::vector<float> corners;
  for (int i = 0; i < 40; ++i) {
    const auto at = static_cast<float>(i) / 4;
    corners.insert(corners.end(), {at, at / 2 - 2, at + 9.5f, at + 3});
  }
  const Tensor regions = make_tensor<float>({40, 4}, corners);
  const Tensor images = make_tensor<int64_t>({40}, std::vector<int64_t>(40, 1));
  for (const char* mode : {"avg", "max"}) {
    for (const int64_t ratio : {int64_t{0}, int64_t{2}}) {
      const AttributeSet attributes{{"mode", mode}, {"output_height", int64_t{2}}, {"output_width", int64_t{1}}, {"sampling_ratio", ratio}};
      const std::vector<float> all = values_of<float>(run_kernel("RoiAlign", attributes, {image, regions, images})[0]);
      for (const size_t i : {size_t{0}, size_t{17}, size_t{39}}) {
        const Tensor region = make_tensor<float>({1, 4}, {corners.begin() + 4 * static_cast<int64_t>(i), corners.begin() + 4 * static_cast<int64_t>(i) + 4});
        const auto one = values_of<float>(run_kernel("RoiAlign", attributes, {image, region, make_tensor<int64_t>({1}, {1})})[0]);
        EXPECT_TRUE(std::ranges::equal(one, std::span(all).subspan(18 * i, 18))) << mode << ", region " << i;
      }
    }
  }
}

}  // namespace
}  // namespace anfora
