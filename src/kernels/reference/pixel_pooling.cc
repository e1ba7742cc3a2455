// Poolings of images whose channels come last: the largest, or the mean, of what a window sees, for some channels side by side in registers.
//
//     y[line, column, c] = max, Σ / count  of  x[line', column', c]      over the window's taps that read the image
//
// Where x is f32 the sums are, too: of many taps those of lines are added.
#ifdef __AVX__
#include <immintrin.h>
#endif

#include <cstring>
#include <memory>
#include <ranges>
#include <span>
#include <utility>

#include "anfora/error.h"
#include "kernels/reference/fold.h"
#include "kernels/reference/prepared.h"
#include "kernels/reference/window.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels {
namespace {

// So many elements side by side; one: the element.
template <class T, size_t kCount>
struct PooledLanes {
  using Type [[gnu::vector_size(kCount * sizeof(T))]] = T;
};
template <class T>
struct PooledLanes<T, 1> {
  using Type = T;
};
template <class T>
constexpr size_t kPooledLanes = 32 / sizeof(T);

// The largest of some taps, lane by lane. As MaxFold: a NaN stays.
template <class T, size_t kCount>
class LargestOfTaps {
 public:
  using V = typename PooledLanes<T, kCount>::Type;
  void add(V x) {
    const V larger = x > value_ ? x : value_;
    value_ = x != x ? x : larger;
  }
  void add(V x, V y) { add(x), add(y); }
  V result(int64_t) const { return value_; }

 private:
  V value_ = V{} + MaxFold::initial<T>;
};

#ifdef __AVX__
// Two taps in four instructions: one tells whether either is a NaN.
template <>
class LargestOfTaps<float, 8> {
 public:
  using V = __m256;
  void add(V x) { add(x, x); }
  void add(V x, V y) {
    asm("" : "+x"(x), "+x"(y));  // or GCC 12 loads them once more for each use
    value_ = _mm256_max_ps(y, _mm256_max_ps(x, value_));
    is_no_number_ = _mm256_or_ps(is_no_number_, _mm256_cmp_ps(x, y, _CMP_UNORD_Q));
  }
  V result(int64_t) const { return _mm256_or_ps(value_, is_no_number_); }  // all bits: a NaN

 private:
  V value_ = _mm256_set1_ps(MaxFold::initial<float>), is_no_number_ = _mm256_setzero_ps();
};
#endif

template <class T, size_t kCount>
class MeanOfTaps {
 public:
  using V = typename PooledLanes<T, kCount>::Type;
  void add(V x) { sum_ += x; }
  void add(V x, V y) { sum_ += x + y; }
  V result(int64_t count) const { return count == 0 ? V{} : sum_ / static_cast<T>(count); }

 private:
  V sum_{};
};

// Windows side by side that see as many pixels: from one to the next, so many elements of x and of y further on.
struct PixelRow {
  int64_t windows, x_step, y_step;
};

// y[i] = what the fold gives of tap[i] of all taps, for `size` elements of each window.
template <template <class, size_t> class Fold, class T>
void fold_taps(std::span<const T* const> taps, int64_t size, PixelRow row, int64_t count, T* y) {
  constexpr auto kStep = static_cast<int64_t>(kPooledLanes<T>);
  using Vectors = Fold<T, kPooledLanes<T>>;
  const auto load = [](const T* from) {
    typename Vectors::V lanes;
    std::memcpy(&lanes, from, sizeof lanes);
    return lanes;
  };
  const auto store = [](typename Vectors::V value, T* to) { std::memcpy(to, &value, sizeof value); };
  if (row.x_step == size && row.y_step == size) size *= std::exchange(row.windows, 1);
  const size_t pairs = taps.size() / 2;
  for (int64_t window = 0, x_at = 0; window < row.windows; ++window, x_at += row.x_step, y += row.y_step) {
    int64_t at = 0;
    for (; at + 4 * kStep <= size; at += 4 * kStep) {
      Vectors a, b, c, d;
      for (size_t i = 0; i < pairs; ++i) {
        const T *x = taps[2 * i] + x_at + at, *other = taps[2 * i + 1] + x_at + at;
        a.add(load(x), load(other)), b.add(load(x + kStep), load(other + kStep));
        c.add(load(x + 2 * kStep), load(other + 2 * kStep)), d.add(load(x + 3 * kStep), load(other + 3 * kStep));
      }
      if (taps.size() % 2 != 0) {
        const T* x = taps.back() + x_at + at;
        a.add(load(x)), b.add(load(x + kStep)), c.add(load(x + 2 * kStep)), d.add(load(x + 3 * kStep));
      }
      store(a.result(count), y + at), store(b.result(count), y + at + kStep);
      store(c.result(count), y + at + 2 * kStep), store(d.result(count), y + at + 3 * kStep);
    }
    for (; at + kStep <= size; at += kStep) {
      Vectors fold;
      for (size_t i = 0; i < pairs; ++i) fold.add(load(taps[2 * i] + x_at + at), load(taps[2 * i + 1] + x_at + at));
      if (taps.size() % 2 != 0) fold.add(load(taps.back() + x_at + at));
      store(fold.result(count), y + at);
    }
    for (; at < size; ++at) {
      Fold<T, 1> fold;
      for (const T* tap : taps) fold.add(tap[x_at + at]);
      y[at] = fold.result(count);
    }
  }
}

// Window i's number of taps to divide by.
int64_t counted_taps(const WindowAxis& axis, int64_t i, bool counts_padding) {
  const WindowAxis::Taps inside = axis.taps_inside(i);
  return counts_padding ? axis.taps_with_padding(i) : inside.last - inside.first;
}

template <template <class, size_t> class Fold, class T>
void pool_pixels(const Window& window, const InputRows& rows, bool counts_padding, const OutputRows& y) {
  constexpr int64_t kGrain = 65536;  // elements read
  const WindowAxis& last = window.axes.back();
  const std::span<const WindowAxis> outer(window.axes.data(), window.rank() - 1);
  const Tensor& x = rows.tensor;
  const int64_t channels = rows.length(), lines = y.tensor.size() / (last.output * channels);
  // Taps that may read the image: of a line, and lines of them.
  const int64_t taps_of_line = std::min(last.kernel, last.input);
  int64_t tap_lines = 1;
  for (const WindowAxis& axis : outer) tap_lines *= std::min(axis.kernel, axis.input);
  // Where windows overlap enough, or are large, the lines that they see are folded into one first.
  constexpr int64_t kManyTaps = 256;
  const int64_t apart = tap_lines * taps_of_line * last.output, folded_first = (tap_lines + 1) * last.input + taps_of_line * last.output;
  const bool folds_lines = tap_lines > 1 && !rows.are_apart() && (folded_first < apart || tap_lines * taps_of_line > kManyTaps);
  struct Columns {
    int64_t first_tap, taps, counted, count;  // first_tap: element of a line
  };
  const int64_t column_step = last.stride * rows.stride;
  ScratchVector<Columns> runs;
  for (int64_t i = 0; i < last.output; ++i) {
    const WindowAxis::Taps inside = last.taps_inside(i);
    const Columns column{(last.start(i) + inside.first * last.dilation) * rows.stride, inside.last - inside.first, counted_taps(last, i, counts_padding), 1};
    const auto continues = [&](const Columns& run) {
      return run.taps == column.taps && run.counted == column.counted && run.first_tap + run.count * column_step == column.first_tap;
    };
    if (!runs.empty() && continues(runs.back())) {
      ++runs.back().count;
    } else {
      runs.push_back(column);
    }
  }
  const T* from = x.data<T>().data();
  T* const to = y.tensor.data<T>().data();
  parallel_for(lines, grain_of(kGrain, apart * channels), [&](int64_t begin, int64_t end) {
    ScratchVector<const T*> first_pixels;  // of the lines that windows of a line of y see
    Scratch<const T*> taps(static_cast<size_t>(tap_lines * taps_of_line));
    Scratch<T> folded(folds_lines ? static_cast<size_t>(last.input * channels) : 0);
    for (int64_t line = begin; line < end; ++line) {
      first_pixels.assign(1, from);
      int64_t count = 1, rest = line, size = last.input * rows.stride;
      for (const WindowAxis& axis : std::views::reverse(outer)) {
        const int64_t at = rest % axis.output;
        rest /= axis.output;
        count *= counted_taps(axis, at, counts_padding);
        const WindowAxis::Taps inside = axis.taps_inside(at);
        const size_t before = first_pixels.size();
        for (int64_t tap = inside.first; tap < inside.last; ++tap) {
          for (size_t i = 0; i < before; ++i) first_pixels.push_back(first_pixels[i] + (axis.start(at) + tap * axis.dilation) * size);
        }
        first_pixels.erase(first_pixels.begin(), first_pixels.begin() + static_cast<std::ptrdiff_t>(before));
        size *= axis.input;
      }
      for (const T*& pixel : first_pixels) pixel += rest * size;  // the image
      if (folds_lines) {
        fold_taps<Fold, T>(first_pixels, last.input * channels, {1, 0, 0}, 1, folded.data());
        first_pixels.assign(1, folded.data());
      }
      T* pixel_of_y = to + line * last.output * y.stride;
      for (const Columns& run : runs) {
        const T** end = taps.data();
        for (const T* pixel : first_pixels) {
          const T* tap = pixel + run.first_tap;
          for (int64_t i = 0; i < run.taps; ++i, tap += last.dilation * rows.stride) *end++ = tap;
        }
        fold_taps<Fold, T>({taps.data(), end}, channels, {run.count, column_step, y.stride}, count * run.counted, pixel_of_y);
        pixel_of_y += run.count * y.stride;
      }
    }
  });
}

class PixelPooling : public PreparedKernel {
 public:
  explicit PixelPooling(const KernelData& data)
      : attributes_(data.attributes),
        is_mean_(data.op == "LoweredAveragePool"),
        counts_padding_(data.attributes.get_int("count_include_pad", 0) != 0) {}

  bool writes_rows_apart(size_t i) const override { return i == 0; }
  bool reads_rows_apart(size_t) const override { return true; }
  void run(KernelContext& context, State*) const override {
    const InputRows rows = context.input_rows(0);
    const Tensor& x = rows.tensor;
    if (x.rank() < 3) throw Error(ErrorCode::TypeMismatch, "a pooling needs a batch, axes and channels");
    const std::span<const int64_t> spatial = std::span(x.shape()).subspan(1, static_cast<size_t>(x.rank()) - 2);
    Window window = read_window(attributes_, spatial.size());
    resolve_window(window, spatial);
    Shape shape{x.dim(0)};
    for (const WindowAxis& axis : window.axes) shape.push_back(axis.output);
    shape.push_back(x.shape().back());
    const OutputRows y = context.allocate_output_rows(0, x.dtype(), shape);
    if (y.tensor.size() == 0) return;
    switch (x.dtype()) {
      case DType::F32: return is_mean_ ? pool_pixels<MeanOfTaps, float>(window, rows, counts_padding_, y) : pool_pixels<LargestOfTaps, float>(window, rows, false, y);
      case DType::I8: return pool_pixels<LargestOfTaps, int8_t>(window, rows, false, y);
      default: return pool_pixels<LargestOfTaps, uint8_t>(window, rows, false, y);
    }
  }

 private:
  const AttributeSet& attributes_;
  bool is_mean_, counts_padding_;
};

std::unique_ptr<PreparedKernel> prepare_pooling_of_pixels(KernelData& data) {
  const DType dtype = data.input(0).dtype;
  const bool has_loops = dtype == DType::F32 || (data.op == "LoweredMaxPool" && (dtype == DType::I8 || dtype == DType::U8));
  if (!has_loops || data.num_outputs != 1 || data.attributes.get_int("channels_last", 0) == 0) return nullptr;
  return std::make_unique<PixelPooling>(data);
}

}  // namespace

void prepare_pixel_pooling(PreparedRegistry& registry) {
  for (const char* op : {"LoweredMaxPool", "LoweredAveragePool"}) registry.add(op, "loops:pooling", prepare_pooling_of_pixels);
}

}  // namespace anfora::kernels
