// Operators of object detectors: choosing boxes, and pooling the regions that they frame.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "kernels/reference/arguments.h"
#include "kernels/reference/broadcast.h"
#include "kernels/reference/families.h"
#include "kernels/reference/floats.h"
#include "kernels/reference/pixels.h"
#include "support/element_types.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels {
namespace {

// NonMaxSuppression ----------------------------------------------------------------------------------

struct Box {
  float y0, x0, y1, x1;
  float area() const { return (y1 - y0) * (x1 - x0); }
};

Box box_at(const float* numbers, bool center) {
  auto [a, b, c, d] = std::array{numbers[0], numbers[1], numbers[2], numbers[3]};
  if (center) return {b - d / 2, a - c / 2, b + d / 2, a + c / 2};  // x, y, width, height
  return {std::min(a, c), std::min(b, d), std::max(a, c), std::max(b, d)};
}

bool overlap(const Box& a, const Box& b, float threshold) {
  const float height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  const float width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  if (height <= 0 || width <= 0 || a.area() <= 0 || b.area() <= 0) return false;
  const float common = height * width;
  return common / (a.area() + b.area() - common) > threshold;
}

// The boxes of one class that are kept, best first, of equal scores the first: as many as `kept` has room for. Returns their number.
int64_t keep_boxes(std::span<const Box> boxes, const float* scores, float iou_threshold, const float* score_threshold,
                   std::span<int64_t> kept) {
  struct Candidate {
    float rank;  // smaller is better; of NaN the largest
    int64_t box;
    bool operator>(const Candidate& other) const { return rank > other.rank || (rank == other.rank && box > other.box); }
  };
  ScratchVector<Candidate> candidates;  // a heap: most are never asked for
  for (int64_t i = 0; i < std::ssize(boxes); ++i) {
    if (score_threshold && !(scores[i] > *score_threshold)) continue;
    candidates.push_back({std::isnan(scores[i]) ? std::numeric_limits<float>::infinity() : -scores[i], i});
  }
  std::ranges::make_heap(candidates, std::greater());
  size_t count = 0;
  while (!candidates.empty() && count < kept.size()) {
    std::ranges::pop_heap(candidates, std::greater());
    const int64_t box = candidates.back().box;
    candidates.pop_back();
    const bool suppressed = std::ranges::any_of(kept.first(count), [&](int64_t k) { return overlap(boxes[k], boxes[box], iou_threshold); });
    if (!suppressed) kept[count++] = box;
  }
  return static_cast<int64_t>(count);
}

void non_max_suppression(KernelContext& context) {
  const Tensor& boxes = context.input(0);
  const Tensor& scores = context.input(1);
  if (boxes.rank() != 3 || scores.rank() != 3 || boxes.dim(2) != 4 || boxes.dim(0) != scores.dim(0) ||
      boxes.dim(1) != scores.dim(2)) {
    refuse("boxes of shape {} and scores of shape {}", to_string(boxes.shape()), to_string(scores.shape()));
  }
  const Tensor* most = context.optional_input(2);
  const Tensor* iou = context.optional_input(3);
  const Tensor* score = context.optional_input(4);
  const int64_t most_per_class = most ? integer(*most) : 0;
  const float iou_threshold = iou ? static_cast<float>(number(*iou)) : 0;
  const float score_threshold = score ? static_cast<float>(number(*score)) : 0;
  if (!(iou_threshold >= 0 && iou_threshold <= 1)) refuse("iou_threshold is {}", iou_threshold);
  const bool center = context.attributes().get_int("center_point_box", 0) != 0;
  const int64_t count = boxes.dim(1), classes = scores.dim(1), batch = boxes.dim(0);

  const auto decoded = context.workspace_of<Box>(static_cast<size_t>(batch * count));
  for (size_t i = 0; i < decoded.size(); ++i) decoded[i] = box_at(boxes.data<float>().data() + 4 * i, center);
  const int64_t room = std::clamp<int64_t>(most_per_class, 0, count);
  const auto kept = context.workspace_of<int64_t>(static_cast<size_t>(batch * classes * room));
  const auto numbers = context.workspace_of<int64_t>(static_cast<size_t>(batch * classes));
  parallel_for(
      batch * classes, std::max<int64_t>(1, 4096 / std::max<int64_t>(count, 1)), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          numbers[i] =
              keep_boxes(decoded.subspan(static_cast<size_t>(i / classes * count), static_cast<size_t>(count)),
                         scores.data<float>().data() + i * count, iou_threshold, score ? &score_threshold : nullptr,
                         kept.subspan(static_cast<size_t>(i * room), static_cast<size_t>(room)));
        }
      });
  int64_t total = 0;
  for (int64_t number : numbers) total += number;
  int64_t* to = context.allocate_output(0, DType::I64, Shape{total, 3}).data<int64_t>().data();
  for (int64_t i = 0; i < std::ssize(numbers); ++i) {
    for (int64_t box : kept.subspan(static_cast<size_t>(i * room), static_cast<size_t>(numbers[i]))) {
      *to++ = i / classes;
      *to++ = i % classes;
      *to++ = box;
    }
  }
}

// RoiAlign -------------------------------------------------------------------------------------------

// Bilinear interpolation between the four neighbours of a sample; beyond the border there is nothing.
struct Sample {
  int64_t offsets[4] = {0, 0, 0, 0};
  float weights[4] = {0, 0, 0, 0};
};

Sample sample_at(float y, float x, int64_t height, int64_t width) {
  Sample sample;
  // Not by the complement: NaN is outside, too.
  if (!(y >= -1 && y <= static_cast<float>(height) && x >= -1 && x <= static_cast<float>(width))) return sample;
  auto split = [](float at, int64_t size, int64_t& low, int64_t& high) {
    at = std::max(at, 0.0f);
    low = std::min(static_cast<int64_t>(at), size - 1);
    high = std::min(low + 1, size - 1);
    return low == high ? 0.0f : at - static_cast<float>(low);
  };
  int64_t y0, y1, x0, x1;
  const float v = split(y, height, y0, y1), u = split(x, width, x0, x1);
  return {{y0 * width + x0, y0 * width + x1, y1 * width + x0, y1 * width + x1},
          {(1 - v) * (1 - u), (1 - v) * u, v * (1 - u), v * u}};
}

// Samples along each side of a bin that are worth averaging; a region that asks for more is corrupt.
constexpr int64_t kMostSamplesPerSide = 1024;

int64_t samples_per_side(int64_t given, float bin_size) {
  if (given > kMostSamplesPerSide) refuse("sampling_ratio is {}", given);
  if (given > 0) return given;
  const float adaptive = std::ceil(bin_size);
  if (!(adaptive <= static_cast<float>(kMostSamplesPerSide))) refuse("a region has bins of size {}", bin_size);
  return std::max<int64_t>(0, static_cast<int64_t>(adaptive));
}

struct RoiSettings {
  int64_t height, width, sampling_ratio;
  float scale;
  bool half_pixel, average;
};

RoiSettings roi_settings(const AttributeSet& attributes) {
  const std::string_view mode = attributes.string("mode", "avg");
  const std::string_view transform = attributes.string("coordinate_transformation_mode", "half_pixel");
  if (mode != "avg" && mode != "max") refuse("mode is '{}'; avg and max exist", mode);
  if (transform != "half_pixel" && transform != "output_half_pixel") {
    refuse("coordinate_transformation_mode is '{}'; half_pixel and output_half_pixel exist", transform);
  }
  RoiSettings settings{attributes.get_int("output_height", 1),
                       attributes.get_int("output_width", 1),
                       attributes.get_int("sampling_ratio", 0),
                       attributes.get_float("spatial_scale", 1),
                       transform == "half_pixel",
                       mode == "avg"};
  if (settings.height < 1 || settings.width < 1) refuse("an output of {} x {}", settings.height, settings.width);
  if (settings.sampling_ratio < 0) refuse("sampling_ratio is {}", settings.sampling_ratio);
  return settings;
}

// The bins of one region.
struct Bins {
  float top, left, height, width;  // of the first bin
  int64_t rows, columns;           // of samples in a bin
};

Bins bins_of(const RoiSettings& s, const float* roi) {
  const float shift = s.half_pixel ? 0.5f : 0;
  const float left = roi[0] * s.scale - shift, top = roi[1] * s.scale - shift;
  float width = roi[2] * s.scale - shift - left, height = roi[3] * s.scale - shift - top;
  if (!s.half_pixel) {  // degenerate regions are taken as one pixel
    width = std::max(width, 1.0f);
    height = std::max(height, 1.0f);
  }
  height /= static_cast<float>(s.height);
  width /= static_cast<float>(s.width);
  return {
      top, left, height, width, samples_per_side(s.sampling_ratio, height), samples_per_side(s.sampling_ratio, width)};
}

void samples_of(const Bins& bins, int64_t row, int64_t column, int64_t height, int64_t width,
                ScratchVector<Sample>& samples) {
  samples.clear();
  for (int64_t i = 0; i < bins.rows; ++i) {
    const float y = static_cast<float>(row) + (static_cast<float>(i) + 0.5f) / static_cast<float>(bins.rows);
    for (int64_t j = 0; j < bins.columns; ++j) {
      const float x = static_cast<float>(column) + (static_cast<float>(j) + 0.5f) / static_cast<float>(bins.columns);
      samples.push_back(sample_at(bins.top + y * bins.height, bins.left + x * bins.width, height, width));
    }
  }
}

// Of one channel. In mode max, the largest of the weighted neighbours counts, not of the interpolated values: so the operator began.
float pool_bin(const float* channel, std::span<const Sample> samples, bool average) {
  if (samples.empty()) return 0;
  float sum = 0, most = -std::numeric_limits<float>::infinity();
  for (const Sample& sample : samples) {
    for (int k = 0; k < 4; ++k) {
      const float part = sample.weights[k] * channel[sample.offsets[k]];
      sum += part;
      most = std::max(most, part);
    }
  }
  return average ? sum / static_cast<float>(samples.size()) : most;
}

// The same of all channels of an image whose channels are last, in the same order.
void pool_bin(const float* image, int64_t channels, std::span<const Sample> samples, bool average, float* to) {
  std::fill_n(to, channels, samples.empty() || average ? 0.0f : -std::numeric_limits<float>::infinity());
  for (const Sample& sample : samples) {
    const auto pixel_at = [&](int64_t k) { return WeightedPixel{image + sample.offsets[k] * channels, sample.weights[k]}; };
    if (average) {
      add_pixels(4, pixel_at, channels, to);
      continue;
    }
    for (int k = 0; k < 4; ++k) {
      const WeightedPixel pixel = pixel_at(k);
      ANFORA_INDEPENDENT_ITERATIONS
      for (int64_t c = 0; c < channels; ++c) to[c] = std::max(to[c], pixel.weight * pixel.channels[c]);
    }
  }
  if (!average || samples.empty()) return;
  const auto count = static_cast<float>(samples.size());
  for (int64_t c = 0; c < channels; ++c) to[c] /= count;
}

void put_floats(KernelContext& context, DType dtype, const Shape& shape, std::span<const float> values) {
  from_floats(values, context.allocate_output(0, dtype, shape));
}

void roi_align(KernelContext& context) {
  const Tensor data = to_floats(context.input(0)), rois = to_floats(context.input(1));
  const RoiSettings settings = roi_settings(context.attributes());
  if (data.rank() != 4 || rois.rank() != 2 || rois.dim(1) != 4) {
    refuse("an input of shape {} with regions of shape {}", to_string(data.shape()), to_string(rois.shape()));
  }
  const std::span<int64_t> images = normalized_indices(context, context.input(2), data.dim(0));
  if (std::ssize(images) != rois.dim(0)) refuse("{} batch indices for {} regions", images.size(), rois.dim(0));
  const int64_t channels = data.dim(1), height = data.dim(2), width = data.dim(3),
                bins = settings.height * settings.width;
  if (height == 0 || width == 0) refuse("an empty image has no regions");
  const Shape shape{rois.dim(0), channels, settings.height, settings.width};
  const auto pooled = context.workspace_of<float>(static_cast<size_t>(element_count(shape)));
  const int64_t pixels = height * width, sampled = settings.sampling_ratio > 0 ? settings.sampling_ratio * settings.sampling_ratio : 1;
  const bool is_dense = pays_side_by_side(channels, rois.dim(0) * bins * sampled, data.dim(0) * pixels);
  const float* image = data.data<float>().data();
  if (is_dense) image = channels_side_by_side(context, data).data<float>().data();
  parallel_for(rois.dim(0), grain_of(kElementwiseGrain, channels * bins), [&](int64_t begin, int64_t end) {
    ScratchVector<Sample> samples;
    Scratch<float> row(is_dense ? static_cast<size_t>(bins * channels) : 0);
    for (int64_t r = begin; r < end; ++r) {
      const Bins grid = bins_of(settings, rois.data<float>().data() + 4 * r);
      const float* of_region = image + images[r] * channels * pixels;
      float* to = pooled.data() + r * channels * bins;
      for (int64_t bin = 0; bin < bins; ++bin) {
        samples_of(grid, bin / settings.width, bin % settings.width, height, width, samples);
        if (is_dense) {
          pool_bin(of_region, channels, samples, settings.average, row.data() + bin * channels);
        } else {
          for (int64_t c = 0; c < channels; ++c) to[c * bins + bin] = pool_bin(of_region + c * pixels, samples, settings.average);
        }
      }
      if (is_dense) channels_apart(row.data(), bins, channels, to, bins);
    }
  });
  put_floats(context, context.input(0).dtype(), shape, pooled);
}

// MaxRoiPool -----------------------------------------------------------------------------------------

// Whole pixels: regions are rounded, and bin i of n covers [floor(i·size/n), ceil((i+1)·size/n)) of them.
void max_roi_pool(KernelContext& context) {
  const Tensor data = to_floats(context.input(0)), rois = to_floats(context.input(1));
  if (data.rank() != 4 || rois.rank() != 2 || rois.dim(1) != 5) {
    refuse("an input of shape {} with regions of shape {}", to_string(data.shape()), to_string(rois.shape()));
  }
  const std::span<const int64_t> pooled_shape = context.attributes().ints("pooled_shape");
  if (pooled_shape.size() != 2 || pooled_shape[0] < 1 || pooled_shape[1] < 1) refuse("pooled_shape needs two sizes");
  const float scale = context.attributes().get_float("spatial_scale", 1);
  const int64_t channels = data.dim(1), bins[2] = {pooled_shape[0], pooled_shape[1]},
                size[2] = {data.dim(2), data.dim(3)};
  const Shape shape{rois.dim(0), channels, bins[0], bins[1]};
  const auto pooled = context.workspace_of<float>(static_cast<size_t>(element_count(shape)));
  for (int64_t r = 0; r < rois.dim(0); ++r) {
    const float* roi = rois.data<float>().data() + 5 * r;  // image, x0, y0, x1, y1
    auto pixel = [&](float at) {
      const float rounded = std::round(at * scale);
      if (!(std::abs(rounded) < 0x1p30f)) refuse("region {} has the coordinate {}", r, at);
      return static_cast<int64_t>(rounded);
    };
    if (!(roi[0] >= 0 && roi[0] < static_cast<float>(data.dim(0)))) refuse("region {} is of image {}", r, roi[0]);
    const int64_t image = static_cast<int64_t>(roi[0]);
    const int64_t start[2] = {pixel(roi[2]), pixel(roi[1])}, last[2] = {pixel(roi[4]), pixel(roi[3])};
    auto bound = [&](int axis, int64_t bin, bool upper) {
      const float length = static_cast<float>(std::max<int64_t>(last[axis] - start[axis] + 1, 1));
      const float step = length / static_cast<float>(bins[axis]);
      const float at =
          upper ? std::ceil(static_cast<float>(bin + 1) * step) : std::floor(static_cast<float>(bin) * step);
      return std::clamp<int64_t>(static_cast<int64_t>(at) + start[axis], 0, size[axis]);
    };
    for (int64_t c = 0; c < channels; ++c) {
      const float* channel = data.data<float>().data() + (image * channels + c) * size[0] * size[1];
      float* to = pooled.data() + (r * channels + c) * bins[0] * bins[1];
      for (int64_t i = 0; i < bins[0]; ++i) {
        for (int64_t j = 0; j < bins[1]; ++j) {
          const int64_t y0 = bound(0, i, false), y1 = bound(0, i, true), x0 = bound(1, j, false),
                        x1 = bound(1, j, true);
          float most = y0 < y1 && x0 < x1 ? -std::numeric_limits<float>::infinity() : 0;
          for (int64_t y = y0; y < y1; ++y) {
            for (int64_t x = x0; x < x1; ++x) most = std::max(most, channel[y * size[1] + x]);
          }
          to[i * bins[1] + j] = most;
        }
      }
    }
  }
  put_floats(context, context.input(0).dtype(), shape, pooled);
}

}  // namespace

void register_detection(KernelRegistry& registry) {
  registry.add("NonMaxSuppression", non_max_suppression);
  registry.add("RoiAlign", roi_align);
  registry.add("MaxRoiPool", max_roi_pool);
}

}  // namespace anfora::kernels
