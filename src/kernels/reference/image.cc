// Sampling images at given places, and putting them together from blocks.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/reference/arguments.h"
#include "kernels/reference/broadcast.h"
#include "kernels/reference/families.h"
#include "kernels/reference/floats.h"
#include "kernels/reference/image_formats.h"
#include "kernels/reference/pixels.h"
#include "support/element_types.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels {
namespace {

// GridSample -----------------------------------------------------------------------------------------

enum class Interpolation { Nearest, Linear, Cubic };
enum class Padding { Zeros, Border, Reflection };

struct Sampler {
  Interpolation mode;
  Padding padding;
  bool align_corners;
};

Sampler sampler_of(const AttributeSet& attributes) {
  Sampler sampler{Interpolation::Linear, Padding::Zeros, attributes.get_int("align_corners", 0) != 0};
  const std::string_view mode = attributes.string("mode", "linear"),
                         padding = attributes.string("padding_mode", "zeros");
  if (mode == "nearest") {
    sampler.mode = Interpolation::Nearest;
  } else if (mode == "cubic" || mode == "bicubic") {  // the names of before operator set 20, too
    sampler.mode = Interpolation::Cubic;
  } else if (mode != "linear" && mode != "bilinear") {
    refuse("mode is '{}'; linear, nearest and cubic exist", mode);
  }
  if (padding == "border") {
    sampler.padding = Padding::Border;
  } else if (padding == "reflection") {
    sampler.padding = Padding::Reflection;
  } else if (padding != "zeros") {
    refuse("padding_mode is '{}'; zeros, border and reflection exist", padding);
  }
  return sampler;
}

// Folds x back into [low, high] at its borders, as often as needed.
double reflect(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return low;
  const double distance = x < low ? low - x : x > high ? x - high : 0;
  if (distance == 0) return x;
  const double folds = std::floor(distance / range), rest = distance - folds * range;
  const bool even = std::fmod(folds, 2) == 0;
  return (x < low) == even ? low + rest : high - rest;
}

// What one coordinate reads along an axis: element indices, -1 for the zero outside, and weights.
struct AxisTaps {
  int count = 0;
  std::array<int64_t, 4> index;
  std::array<float, 4> weight;
};

AxisTaps axis_taps(const Sampler& sampler, int64_t size, float normalized) {
  const auto length = static_cast<float>(size);
  float x = sampler.align_corners ? (normalized + 1) / 2 * (length - 1) : ((normalized + 1) * length - 1) / 2;
  // No place, and places further out than any image, are the same: far outside.
  constexpr float kFar = 0x1p30f;
  x = std::isnan(x) ? -kFar : std::clamp(x, -kFar, kFar);
  if (sampler.mode == Interpolation::Nearest) x = std::nearbyint(x);
  const double low = sampler.align_corners ? 0 : -0.5, high = sampler.align_corners ? length - 1 : length - 0.5;
  if (x < low || x > high) {
    if (sampler.padding == Padding::Border) x = std::clamp(x, 0.0f, length - 1);
    if (sampler.padding == Padding::Reflection) x = static_cast<float>(reflect(x, low, high));
  }
  auto element = [&](int64_t i) -> int64_t {
    if (i >= 0 && i < size) return i;
    if (sampler.padding == Padding::Zeros) return -1;
    if (sampler.padding == Padding::Reflection) i = static_cast<int64_t>(reflect(static_cast<double>(i), low, high));
    return std::clamp<int64_t>(i, 0, size - 1);
  };
  const auto base = static_cast<int64_t>(std::floor(x));
  const float t = x - static_cast<float>(base);
  AxisTaps taps;
  auto add = [&](int64_t i, float weight) {
    taps.index[taps.count] = element(i);
    taps.weight[taps.count++] = weight;
  };
  if (sampler.mode == Interpolation::Nearest) {
    add(base, 1);
  } else if (sampler.mode == Interpolation::Linear) {
    add(base, 1 - t);
    add(base + 1, t);
  } else {
    constexpr float a = -0.75f;  // Keys' coefficient
    auto inner = [](float d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
    auto outer = [](float d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
    add(base - 1, outer(t + 1));
    add(base, inner(t));
    add(base + 1, inner(1 - t));
    add(base + 2, outer(2 - t));
  }
  return taps;
}

struct Tap {
  int64_t offset;
  float weight;
};

// The elements of a channel, and their weights, that the place at `position` reads: the product of its axes' taps.
// Positions name the last axis first.
void place_taps(const Sampler& sampler, std::span<const int64_t> sizes, const float* position,
                ScratchVector<Tap>& taps) {
  taps.assign(1, {0, 1});
  for (size_t d = 0; d < sizes.size(); ++d) {
    const AxisTaps axis = axis_taps(sampler, sizes[d], position[sizes.size() - 1 - d]);
    const size_t before = taps.size();
    for (int k = 0; k < axis.count; ++k) {
      if (axis.index[k] < 0) continue;
      for (size_t i = 0; i < before; ++i) {
        taps.push_back({taps[i].offset * sizes[d] + axis.index[k], taps[i].weight * axis.weight[k]});
      }
    }
    taps.erase(taps.begin(), taps.begin() + static_cast<std::ptrdiff_t>(before));
  }
}

template <class T>
T from_double(double value) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    if (std::isnan(value)) return 0;
    if (value <= static_cast<double>(std::numeric_limits<T>::lowest())) return std::numeric_limits<T>::lowest();
    if (value >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
    return static_cast<T>(value);
  } else {
    return static_cast<T>(static_cast<ComputeType<T>>(value));
  }
}

void grid_sample(KernelContext& context) {
  const Tensor& data = context.input(0);
  const Tensor grid = to_floats(context.input(1));
  const Sampler sampler = sampler_of(context.attributes());
  const int rank = data.rank(), axes = rank - 2;
  if (axes < 1 || grid.rank() != rank || grid.dim(rank - 1) != axes || grid.dim(0) != data.dim(0)) {
    refuse("a grid of shape {} does not fit an input of shape {}", to_string(grid.shape()), to_string(data.shape()));
  }
  constexpr int kMostAxes = 8;  // 4^8 taps in cubic mode
  if (axes > kMostAxes) refuse("an input with {} spatial axes", axes);
  const std::span<const int64_t> sizes = std::span(data.shape()).subspan(2);
  Shape shape{data.dim(0), data.dim(1)};
  shape.insert(shape.end(), grid.shape().begin() + 1, grid.shape().end() - 1);
  Tensor& output = context.allocate_output(0, data.dtype(), shape);
  if (output.size() == 0) return;
  if (data.size() == 0) refuse("an empty image cannot be sampled");
  const int64_t channels = data.dim(1), pixels = extent(data.shape(), 2, rank), places = extent(shape, 2, rank);
  const float* positions = grid.data<float>().data();
  dispatch<Join<Numbers, TypeList<bool>>>(data.dtype(), [&]<class T>() {
    using Sum = std::conditional_t<std::is_same_v<ComputeType<T>, float>, float, double>;
    const T* source = data.data<T>().data();
    T* target = output.data<T>().data();
    // Unless channels are side by side, one of some places after another: they are neighbours in the result.
    constexpr int64_t kPlaces = 64;
    const bool is_dense = std::is_same_v<T, float> && pays_side_by_side(channels, places, pixels);
    const float* by_pixel = is_dense ? channels_side_by_side(context, data).template data<float>().data() : nullptr;
    const int64_t blocks = (places + kPlaces - 1) / kPlaces;
    parallel_for(data.dim(0) * blocks, std::max<int64_t>(1, 4096 / (channels * kPlaces)), [&](int64_t begin, int64_t end) {
      ScratchVector<Tap> taps, of_block;
      std::array<size_t, kPlaces + 1> first{};  // tap of a place
      Scratch<float> rows(is_dense ? static_cast<size_t>(kPlaces * channels) : 0);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t image = i / blocks, from = i % blocks * kPlaces, count = std::min(kPlaces, places - from);
        of_block.clear();
        for (int64_t k = 0; k < count; ++k) {
          place_taps(sampler, sizes, positions + (image * places + from + k) * axes, taps);
          of_block.insert(of_block.end(), taps.begin(), taps.end());
          first[static_cast<size_t>(k) + 1] = of_block.size();
        }
        if constexpr (std::is_same_v<T, float>) {
          if (is_dense) {
            std::fill(rows.begin(), rows.begin() + count * channels, 0.0f);
            for (int64_t k = 0; k < count; ++k) {
              const std::span<const Tap> of_place(of_block.data() + first[static_cast<size_t>(k)], of_block.data() + first[static_cast<size_t>(k) + 1]);
              const auto pixel_at = [&](int64_t t) {
                const Tap& tap = of_place[static_cast<size_t>(t)];
                return WeightedPixel{by_pixel + (image * pixels + tap.offset) * channels, tap.weight};
              };
              add_pixels(std::ssize(of_place), pixel_at, channels, rows.data() + k * channels);
            }
            channels_apart(rows.data(), count, channels, target + image * channels * places + from, places);
            continue;
          }
        }
        for (int64_t c = image * channels; c < (image + 1) * channels; ++c) {
          const T* channel = source + c * pixels;
          const auto term = [&](size_t t) {
            return static_cast<Sum>(of_block[t].weight) * static_cast<Sum>(static_cast<ComputeType<T>>(channel[of_block[t].offset]));
          };
          for (size_t k = 0; k < static_cast<size_t>(count); ++k) {
            Sum sum = 0;
            for (size_t t = first[k]; t < first[k + 1]; ++t) sum += term(t);
            target[c * places + from + static_cast<int64_t>(k)] = from_double<T>(static_cast<double>(sum));
          }
        }
      }
    });
  });
}

// AffineGrid -----------------------------------------------------------------------------------------

// The grid of places evenly spaced over [-1, 1] in each axis, last axis first, each multiplied by the affine matrix.
void affine_grid(KernelContext& context) {
  const Tensor& theta = context.input(0);
  const IntegerList size = integers(context.input(1));
  const int axes = static_cast<int>(size.size()) - 2;
  if (axes != 2 && axes != 3) refuse("a size of {} dimensions; 4 and 5 are possible", size.size());
  if (theta.shape() != Shape{size[0], axes, axes + 1}) {
    refuse("theta has shape {}, expected {}x{}x{}", to_string(theta.shape()), size[0], axes, axes + 1);
  }
  const bool align_corners = context.attributes().get_int("align_corners", 0) != 0;
  const std::span<const int64_t> sizes = std::span(size).subspan(2);
  Shape shape{size[0]};
  shape.insert(shape.end(), sizes.begin(), sizes.end());
  shape.push_back(axes);
  Tensor& output = context.allocate_output(0, theta.dtype(), shape);
  const int64_t places = element_count(sizes);
  dispatch<Floats>(theta.dtype(), [&]<class T>() {
    using C = ComputeType<T>;
    auto matrices = theta.data<T>();
    auto to = output.data<T>();
    for (int64_t i = 0; i < size[0] * places; ++i) {
      C position[4] = {0, 0, 0, 0};
      int64_t rest = i % places;
      for (int d = axes - 1; d >= 0; rest /= sizes[d], --d) {
        const C at = static_cast<C>(rest % sizes[d]), length = static_cast<C>(sizes[d]);
        const C steps = align_corners ? length - 1 : length;
        position[axes - 1 - d] = steps == 0 ? 0 : (align_corners ? 2 * at : 2 * at + 1) / steps - 1;
      }
      position[axes] = 1;
      for (int row = 0; row < axes; ++row) {
        C sum = 0;
        for (int k = 0; k <= axes; ++k) {
          sum += static_cast<C>(matrices[(i / places * axes + row) * (axes + 1) + k]) * position[k];
        }
        to[i * axes + row] = static_cast<T>(sum);
      }
    }
  });
}

// Col2Im ---------------------------------------------------------------------------------------------

struct ColumnBlocks {
  IntegerList image, block, dilations, strides, pads, count;  // count: of blocks along each axis
};

IntegerList per_axis(const AttributeSet& attributes, std::string_view name, size_t length, int64_t otherwise,
                     int64_t least) {
  const std::span<const int64_t> given = attributes.ints(name);
  IntegerList values(given.begin(), given.end());
  if (!attributes.has(name)) values.assign(length, otherwise);
  if (values.size() != length) refuse("{} has {} values, {} are needed", name, values.size(), length);
  for (int64_t value : values) {
    if (value < least || value > (int64_t{1} << 40)) refuse("{} holds {}", name, value);
  }
  return values;
}

ColumnBlocks column_blocks_of(KernelContext& context) {
  ColumnBlocks b;
  b.image = integers(context.input(1));
  b.block = integers(context.input(2));
  const size_t axes = b.image.size();
  if (axes == 0 || b.block.size() != axes) refuse("an image of {} axes, blocks of {}", axes, b.block.size());
  b.dilations = per_axis(context.attributes(), "dilations", axes, 1, 1);
  b.strides = per_axis(context.attributes(), "strides", axes, 1, 1);
  b.pads = per_axis(context.attributes(), "pads", 2 * axes, 0, 0);
  for (size_t d = 0; d < axes; ++d) {
    if (b.image[d] < 0 || b.block[d] < 1) refuse("axis {} of size {} with blocks of {}", d, b.image[d], b.block[d]);
    const int64_t padded = checked_add(checked_add(b.image[d], b.pads[d]), b.pads[d + axes]);
    const int64_t reach = checked_multiply(b.dilations[d], b.block[d] - 1) + 1;
    if (reach > padded) refuse("blocks reach over {} of an axis of {}", reach, padded);
    b.count.push_back((padded - reach) / b.strides[d] + 1);
  }
  return b;
}

// The elements at one place of the blocks that lie side by side along the last axis: the i-th comes to `offset` + i · stride, and those from
// `first` to `end` lie in the image.
struct ColumnRow {
  int64_t offset, first, end;
};

ScratchVector<ColumnRow> column_rows_of(const ColumnBlocks& b) {
  const size_t last = b.image.size() - 1;
  const Shape strides = dense_strides(b.image);
  const int64_t outer = element_count(b.count) / std::max<int64_t>(b.count[last], 1);
  ScratchVector<ColumnRow> rows;
  rows.reserve(static_cast<size_t>(element_count(b.block) * outer));
  for (int64_t place = 0; place < element_count(b.block); ++place) {
    const int64_t shift = place % b.block[last] * b.dilations[last] - b.pads[last], stride = b.strides[last];
    const int64_t first = shift < 0 ? (-shift + stride - 1) / stride : 0;
    const int64_t end = shift < b.image[last] ? std::min(b.count[last], (b.image[last] - 1 - shift) / stride + 1) : 0;
    for (int64_t block = 0; block < outer; ++block) {
      ColumnRow row{shift, first, end};
      int64_t in_place = place / b.block[last], in_block = block;
      for (size_t d = last; d-- > 0; in_place /= b.block[d], in_block /= b.count[d]) {
        const int64_t at = in_block % b.count[d] * b.strides[d] + in_place % b.block[d] * b.dilations[d] - b.pads[d];
        if (at < 0 || at >= b.image[d]) row.end = 0;
        row.offset += at * strides[d];
      }
      rows.push_back(row);
    }
  }
  return rows;
}

// Each block is added to the image where it was cut out: the transpose of cutting.
void col2im(KernelContext& context) {
  const Tensor& columns = context.input(0);
  const ColumnBlocks b = column_blocks_of(context);
  const int64_t block_size = element_count(b.block), count = element_count(b.count);
  if (columns.rank() != 3 || columns.dim(1) % block_size != 0 || columns.dim(2) != count) {
    refuse("columns of shape {} for {} blocks of {}", to_string(columns.shape()), count, block_size);
  }
  const int64_t channels = columns.dim(1) / block_size;
  Shape shape{columns.dim(0), channels};
  shape.insert(shape.end(), b.image.begin(), b.image.end());
  Tensor& output = context.allocate_output(0, columns.dtype(), shape);
  if (output.size() == 0) return;
  const int64_t pixels = element_count(b.image), blocks = b.count.back(), stride = b.strides.back();
  const ScratchVector<ColumnRow> rows = column_rows_of(b);
  dispatch<Join<Numbers, Complexes>>(columns.dtype(), [&]<class T>() {
    using C = ComputeType<T>;
    const T* from = columns.data<T>().data();
    T* to = output.data<T>().data();
    parallel_for(columns.dim(0) * channels, grain_of(kElementwiseGrain, pixels * block_size),
                 [&](int64_t begin, int64_t end) {
                   ScratchVector<C> image(static_cast<size_t>(pixels));
                   for (int64_t c = begin; c < end; ++c) {
                     std::ranges::fill(image, C{});
                     for (int64_t row = 0; row < std::ssize(rows); ++row) {
                       const ColumnRow& r = rows[static_cast<size_t>(row)];
                       const T* elements = from + (c * std::ssize(rows) + row) * blocks;
                       for (int64_t i = r.first; i < r.end; ++i) image[r.offset + i * stride] += static_cast<C>(elements[i]);
                     }
                     std::ranges::transform(image, to + c * pixels, [](C value) { return static_cast<T>(value); });
                   }
                 });
  });
}

}  // namespace

void register_image(KernelRegistry& registry) {
  registry.add("GridSample", grid_sample);
  registry.add("AffineGrid", affine_grid);
  registry.add("Col2Im", col2im);
  registry.add("ImageDecoder", image_decoder);
}

}  // namespace anfora::kernels
