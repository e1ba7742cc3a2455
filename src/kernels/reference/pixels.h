// Images whose channels lie side by side, for kernels that read all channels of a few pixels: these are runs of memory then, and their loops vectors.
#pragma once

#include "kernels/kernel.h"
#include "kernels/reference/strided_copy.h"
#include "kernels/reference/vectorize.h"

namespace anfora::kernels {

// Whether it pays for kernels that read so many places of all images: the channels of a pixel fill a vector, and the images are not read for little.
inline bool pays_side_by_side(int64_t channels, int64_t places, int64_t pixels) {
  constexpr int64_t kFewestChannels = 8, kPixelsPerPlace = 8;
  return channels >= kFewestChannels && places > pixels / kPixelsPerPlace;
}

// [batch, channels, …] f32 as [batch, pixels, channels], in the workspace.
inline Tensor channels_side_by_side(KernelContext& context, const Tensor& images) {
  const int64_t batch = images.dim(0), channels = images.dim(1), pixels = images.size() / (batch * channels);
  Tensor result = context.temporary(DType::F32, Shape{batch, pixels, channels});
  strided_copy(DType::F32, result.shape(), result.raw(), Shape{pixels * channels, channels, 1}, images.raw(), Shape{channels * pixels, 1, pixels});
  return result;
}

// Back again, some pixels of one image: from[pixels, channels] to channels that are `distance` elements apart.
inline void channels_apart(const float* from, int64_t pixels, int64_t channels, float* to, int64_t distance) {
  strided_copy(DType::F32, Shape{channels, pixels}, to, Shape{distance, 1}, from, Shape{1, channels});
}

struct WeightedPixel {
  const float* channels;
  float weight;
};

// sums[c] += pixel.weight · pixel.channels[c], one pixel after another: of four at a time, sums are read and written once.
template <class PixelAt>
void add_pixels(int64_t count, const PixelAt& pixel_at, int64_t channels, float* sums) {
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const WeightedPixel p0 = pixel_at(i), p1 = pixel_at(i + 1), p2 = pixel_at(i + 2), p3 = pixel_at(i + 3);
    const auto part = [](const WeightedPixel& p, int64_t c) { return p.weight * p.channels[c]; };
    ANFORA_INDEPENDENT_ITERATIONS
    for (int64_t c = 0; c < channels; ++c) sums[c] = sums[c] + part(p0, c) + part(p1, c) + part(p2, c) + part(p3, c);
  }
  for (; i < count; ++i) {
    const WeightedPixel p = pixel_at(i);
    ANFORA_INDEPENDENT_ITERATIONS
    for (int64_t c = 0; c < channels; ++c) sums[c] += p.weight * p.channels[c];
  }
}

}  // namespace anfora::kernels
