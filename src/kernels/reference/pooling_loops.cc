// Poolings: the largest, or the mean, of what a window sees, for some windows or channels side by side in registers.
//
//     y[line, column, c] = max, Σ / count  of  x[line', column', c]      over the window's taps that read the image
//
// Where channels come last, those of a pixel are side by side. Where they come first, windows of a line are: the lines that they see are folded into
// one, with padding, whose columns are sorted by the remainder of the stride, so that what a tap of successive windows sees lies side by side.
//
//     lines  a b c d e f            . A C E     with padding              . A C E   first tap         three windows of
//            g h i j k l  ──▶ A=a∘g …  B D F                 ──▶          B D F     second            three taps,
//                                                                         A C E     third             two columns apart
//
// Where x is f32 the sums are, too: of many taps those of lines are added.
#ifdef __AVX__
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>
#include <cstring>
#include <memory>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>

#include "anfora/error.h"
#include "kernels/kernel.h"
#include "kernels/reference/fold.h"
#include "kernels/reference/prepared.h"
#include "kernels/reference/vectorize.h"
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

// The sum of the taps, divided by a number that is not 0.
template <class T, size_t kCount>
class MeanOfTaps {
 public:
  using V = typename PooledLanes<T, kCount>::Type;
  void add(V x) { sum_ += x; }
  void add(V x, V y) { sum_ += x + y; }
  V result(int64_t count) const { return count == 1 ? sum_ : sum_ / static_cast<T>(count); }

 private:
  V sum_{};
};

template <class T>
struct Largest {
  using Element = T;
  template <size_t kCount>
  using Taps = LargestOfTaps<T, kCount>;
  static constexpr bool kIsMean = false;
  static constexpr T kPadding = MaxFold::initial<T>;
};
struct Mean {
  using Element = float;
  template <size_t kCount>
  using Taps = MeanOfTaps<float, kCount>;
  static constexpr bool kIsMean = true;
  static constexpr float kPadding = 0;
};

// Windows side by side that see as many pixels: from one to the next, so many elements of x and of y further on.
struct PixelRow {
  int64_t windows, x_step, y_step;
};

// Where taps begin, two at a time: of as many as the compiler knows the addresses stay in registers.
template <class T, size_t kTaps>
class KnownTaps {
 public:
  explicit KnownTaps(std::span<const T* const> taps) { std::copy_n(taps.begin(), kTaps, taps_.begin()); }
  template <class Pair, class Single>
  void for_each(const Pair& pair, const Single& single) const {
    [&]<size_t... i>(std::index_sequence<i...>) { (pair(taps_[2 * i], taps_[2 * i + 1]), ...); }(std::make_index_sequence<kTaps / 2>());
    if constexpr (kTaps % 2 != 0) single(taps_[kTaps - 1]);
  }

 private:
  std::array<const T*, kTaps> taps_;
};
template <class T>
class AnyTaps {
 public:
  explicit AnyTaps(std::span<const T* const> taps) : taps_(taps) {}
  template <class Pair, class Single>
  void for_each(const Pair& pair, const Single& single) const {
    for (size_t i = 0; i + 1 < taps_.size(); i += 2) pair(taps_[i], taps_[i + 1]);
    if (taps_.size() % 2 != 0) single(taps_.back());
  }

 private:
  std::span<const T* const> taps_;
};

// y[i] = what the fold gives of element i of all taps, for `size` elements of each window. y is not what the taps lie in: its last elements may be
// computed twice.
template <class Fold, class Taps, class T = typename Fold::Element>
void fold_windows(const Taps& taps, int64_t size, PixelRow row, int64_t count, T* y) {
  constexpr size_t kLanes = kPooledLanes<T>;
  constexpr auto kStep = static_cast<int64_t>(kLanes);
  // A vector of so many lanes.
  const auto fold = [&]<size_t kCount>(int64_t x_at, int64_t at) {
    using Lanes = typename Fold::template Taps<kCount>;
    const auto load = [from = x_at + at](const T* tap) {
      typename Lanes::V lanes;
      std::memcpy(&lanes, tap + from, sizeof lanes);
      return lanes;
    };
    Lanes a;
    taps.for_each([&](const T* tap, const T* other) { a.add(load(tap), load(other)); }, [&](const T* tap) { a.add(load(tap)); });
    const typename Lanes::V value = a.result(count);
    std::memcpy(y + at, &value, sizeof value);
  };
  // Four of them, so that one need not wait for another.
  const auto fold_four = [&](int64_t x_at, int64_t at) {
    using Lanes = typename Fold::template Taps<kLanes>;
    const auto load = [from = x_at + at](const T* tap, int64_t vector) {
      typename Lanes::V lanes;
      std::memcpy(&lanes, tap + from + vector * kStep, sizeof lanes);
      return lanes;
    };
    const auto store = [to = y + at](typename Lanes::V value, int64_t vector) { std::memcpy(to + vector * kStep, &value, sizeof value); };
    Lanes a, b, c, d;
    taps.for_each(
        [&](const T* tap, const T* other) {
          a.add(load(tap, 0), load(other, 0)), b.add(load(tap, 1), load(other, 1)), c.add(load(tap, 2), load(other, 2)), d.add(load(tap, 3), load(other, 3));
        },
        [&](const T* tap) { a.add(load(tap, 0)), b.add(load(tap, 1)), c.add(load(tap, 2)), d.add(load(tap, 3)); });
    store(a.result(count), 0), store(b.result(count), 1), store(c.result(count), 2), store(d.result(count), 3);
  };
  for (int64_t window = 0, x_at = 0; window < row.windows; ++window, x_at += row.x_step, y += row.y_step) {
    int64_t at = 0;
    for (; at + 4 * kStep <= size; at += 4 * kStep) fold_four(x_at, at);
    for (; at + kStep <= size; at += kStep) fold.template operator()<kLanes>(x_at, at);
    if (at == size) continue;
    if (size >= kStep) {
      fold.template operator()<kLanes>(x_at, size - kStep);
    } else if (size >= kStep / 2) {
      fold.template operator()<kLanes / 2>(x_at, 0);
      fold.template operator()<kLanes / 2>(x_at, size - kStep / 2);
    } else {
      for (; at < size; ++at) fold.template operator()<1>(x_at, at);
    }
  }
}

// Not a part of its callers, or the library would have it several times.
template <class Fold>
[[gnu::noinline]] void fold_taps(std::span<const typename Fold::Element* const> taps, int64_t size, PixelRow row, int64_t count, typename Fold::Element* y) {
  using T = typename Fold::Element;
  if (row.x_step == size && row.y_step == size) size *= std::exchange(row.windows, 1);
  const auto fold_known = [&]<size_t kTaps>() { fold_windows<Fold>(KnownTaps<T, kTaps>(taps), size, row, count, y); };
  if constexpr (std::is_same_v<T, float>) {
    switch (taps.size()) {
      case 2: return fold_known.template operator()<2>();
      case 3: return fold_known.template operator()<3>();
      case 4: return fold_known.template operator()<4>();
      case 9: return fold_known.template operator()<9>();
      default: break;
    }
  }
  fold_windows<Fold>(AnyTaps<T>(taps), size, row, count, y);
}

// What window i of an axis sees: so many taps from coordinate `first` on, and by how many a sum is divided.
struct SeenTaps {
  int64_t first, taps, counted;

  SeenTaps(const WindowAxis& axis, int64_t i, bool counts_padding) {
    const WindowAxis::Taps inside = axis.taps_inside(i);
    first = axis.start(i) + inside.first * axis.dilation;
    taps = inside.last - inside.first;
    counted = counts_padding ? axis.taps_with_padding(i) : taps;
  }
};

// Of all axes but the last.
class SeenLines {
 public:
  SeenLines(const Window& window, bool counts_padding) {
    for (const WindowAxis& axis : std::span(window.axes.data(), window.rank() - 1)) {
      axes_.push_back({axis.input, axis.dilation, {}});
      for (int64_t i = 0; i < axis.output; ++i) axes_.back().seen.emplace_back(axis, i, counts_padding);
      most_ *= std::min(axis.kernel, axis.input);
    }
  }

  int64_t most() const { return most_; }
  // Where the lines of x begin that windows of a line of y see; returns by how many a sum is divided.
  template <class T>
  int64_t find(int64_t line, const T* x, int64_t line_size, ScratchVector<const T*>& lines) const {
    lines.assign(1, x);
    int64_t counted = 1, size = line_size;
    for (const Axis& axis : std::views::reverse(axes_)) {
      const auto outputs = static_cast<int64_t>(axis.seen.size());
      const SeenTaps& seen = axis.seen[static_cast<size_t>(line % outputs)];
      line /= outputs;
      counted *= seen.counted;
      const size_t before = lines.size();
      lines.resize(before * static_cast<size_t>(seen.taps));
      for (int64_t tap = seen.taps; tap-- > 0;) {
        const T** to = lines.data() + static_cast<size_t>(tap) * before;
        for (size_t i = 0; i < before; ++i) to[i] = lines[i] + (seen.first + tap * axis.dilation) * size;
      }
      size *= axis.input;
    }
    for (const T*& first : lines) first += line * size;  // the image
    return counted;
  }

 private:
  struct Axis {
    int64_t input, dilation;
    ScratchVector<SeenTaps> seen;
  };
  boost::container::small_vector<Axis, 2> axes_;
  int64_t most_ = 1;
};

// Whether the lines that windows see are better folded into one first: where windows overlap enough, or are large.
bool folds_lines_first(const WindowAxis& last, int64_t lines) {
  constexpr int64_t kManyTaps = 256;
  const int64_t taps = std::min(last.kernel, last.input), folded_first = (lines + 1) * last.input + taps * last.output;
  return lines > 1 && (folded_first < lines * taps * last.output || lines * taps > kManyTaps);
}

constexpr int64_t kReadsPerThread = 65536;

template <class Fold, class T = typename Fold::Element>
void pool_pixels(const Window& window, const InputRows& rows, bool counts_padding, const OutputRows& y) {
  const WindowAxis& last = window.axes.back();
  const Tensor& x = rows.tensor;
  const int64_t channels = rows.length(), lines = y.tensor.size() / (last.output * channels), column_step = last.stride * rows.stride;
  const SeenLines seen_lines(window, counts_padding);
  const bool folds_lines = !rows.are_apart() && folds_lines_first(last, seen_lines.most());
  struct Run {
    SeenTaps first;
    int64_t windows;
  };
  ScratchVector<Run> runs;  // of windows that see as much
  for (int64_t i = 0; i < last.output; ++i) {
    const SeenTaps seen(last, i, counts_padding);
    const auto continues = [&](const Run& run) {
      return run.first.taps == seen.taps && run.first.counted == seen.counted && run.first.first + run.windows * last.stride == seen.first;
    };
    if (!runs.empty() && continues(runs.back())) {
      ++runs.back().windows;
    } else {
      runs.push_back({seen, 1});
    }
  }
  const int64_t taps_of_line = std::min(last.kernel, last.input), taps_of_window = seen_lines.most() * taps_of_line;
  const T* from = x.data<T>().data();
  T* const to = y.tensor.data<T>().data();
  parallel_for(lines, grain_of(kReadsPerThread, taps_of_window * last.output * channels), [&](int64_t begin, int64_t end) {
    ScratchVector<const T*> first_pixels;
    Scratch<const T*> taps(static_cast<size_t>(taps_of_window));
    Scratch<T> folded(folds_lines ? static_cast<size_t>(last.input * channels) : 0);
    for (int64_t line = begin; line < end; ++line) {
      const int64_t counted = seen_lines.find(line, from, last.input * rows.stride, first_pixels);
      if (folds_lines) {
        fold_taps<Fold>(first_pixels, last.input * channels, {1, 0, 0}, 1, folded.data());
        first_pixels.assign(1, folded.data());
      }
      T* pixel_of_y = to + line * last.output * y.stride;
      for (const Run& run : runs) {
        const T** end_of_taps = taps.data();
        for (const T* pixel : first_pixels) {
          const T* tap = pixel + run.first.first * rows.stride;
          for (int64_t i = 0; i < run.first.taps; ++i, tap += last.dilation * rows.stride) *end_of_taps++ = tap;
        }
        fold_taps<Fold>({taps.data(), end_of_taps}, channels, {run.windows, column_step, y.stride}, std::max<int64_t>(counted * run.first.counted, 1),
                        pixel_of_y);
        pixel_of_y += run.windows * y.stride;
      }
    }
  });
}

// to[r · columns + i] = from[i · stride + r] for all remainders r. The size is a multiple of the stride.
template <class T>
void sort_by_remainder(const T* from, int64_t size, int64_t stride, int64_t columns, T* to) {
  int64_t i = 0;
  if constexpr (sizeof(T) == 4) {
    if (stride == 2) {
      using V = typename PooledLanes<T, kPooledLanes<T>>::Type;
      using Places [[gnu::vector_size(32)]] = int32_t;
      constexpr auto kStep = static_cast<int64_t>(kPooledLanes<T>);
      for (; 2 * (i + kStep) <= size; i += kStep) {
        V low, high;
        std::memcpy(&low, from + 2 * i, sizeof low), std::memcpy(&high, from + 2 * i + kStep, sizeof high);
        const V even = __builtin_shuffle(low, high, Places{0, 2, 4, 6, 8, 10, 12, 14}), odd = __builtin_shuffle(low, high, Places{1, 3, 5, 7, 9, 11, 13, 15});
        std::memcpy(to + i, &even, sizeof even), std::memcpy(to + columns + i, &odd, sizeof odd);
      }
    }
  }
  for (; i * stride < size; ++i) {
    for (int64_t r = 0; r < stride; ++r) to[r * columns + i] = from[i * stride + r];
  }
}

// Whether a line with its padding is much longer than without.
bool is_mostly_padding(const WindowAxis& last) { return (last.output - 1) * last.stride + last.reach() + last.stride > 4 * (last.input + last.output) + 64; }

template <class Fold, class T = typename Fold::Element>
void fold_planes(const Window& window, const Tensor& x, bool counts_padding, Tensor& y) {
  constexpr int64_t kColumnsAtOnce = 4096;  // of lines that are folded before they are read: a load across two new stores waits for both
  const WindowAxis& last = window.axes.back();
  const SeenLines seen_lines(window, counts_padding);
  // Of a line with its padding: all columns that windows see.
  const int64_t columns = ceil_div((last.output - 1) * last.stride + last.reach(), last.stride), padded = columns * last.stride;
  const int64_t first = std::max<int64_t>(last.start(0), 0), end_of_seen = std::min(last.start(0) + padded, last.input);
  const int64_t lines_at_once = std::max<int64_t>(1, kColumnsAtOnce / padded);
  Scratch<T> counts(Fold::kIsMean ? static_cast<size_t>(last.output) : 0);
  if constexpr (Fold::kIsMean) {
    for (int64_t i = 0; i < last.output; ++i) counts[static_cast<size_t>(i)] = static_cast<T>(std::max<int64_t>(SeenTaps(last, i, counts_padding).counted, 1));
  }
  const T* from = x.data<T>().data();
  T* const to = y.data<T>().data();
  const int64_t reads = seen_lines.most() * last.input + last.kernel * last.output;
  parallel_for(y.size() / last.output, grain_of(kReadsPerThread, reads), [&](int64_t begin, int64_t end) {
    const int64_t most = std::min(lines_at_once, end - begin);
    ScratchVector<const T*> lines;
    Scratch<T> folded(static_cast<size_t>(most * padded)), sorted(last.stride > 1 ? folded.size() : 0);
    Scratch<T> counted(static_cast<size_t>(most));
    Scratch<const T*> taps(static_cast<size_t>(last.kernel));
    std::fill(folded.begin(), folded.end(), Fold::kPadding);
    const T* columns_of_taps = last.stride > 1 ? sorted.data() : folded.data();
    for (int64_t i = 0; i < last.kernel; ++i) {
      taps[static_cast<size_t>(i)] = columns_of_taps + i * last.dilation % last.stride * most * columns + i * last.dilation / last.stride;
    }
    for (int64_t line = begin; line < end; line += most) {
      const int64_t count = std::min(most, end - line);
      for (int64_t i = 0; i < count; ++i) {
        counted[static_cast<size_t>(i)] = static_cast<T>(std::max<int64_t>(seen_lines.find(line + i, from + first, last.input, lines), 1));
        if (first < end_of_seen) fold_taps<Fold>(lines, end_of_seen - first, {1, 0, 0}, 1, folded.data() + i * padded + first - last.start(0));
      }
      if (last.stride > 1) sort_by_remainder(folded.data(), count * padded, last.stride, most * columns, sorted.data());
      T* line_of_y = to + line * last.output;
      fold_taps<Fold>(taps, last.output, {count, columns, last.output}, 1, line_of_y);
      if constexpr (Fold::kIsMean) {
        for (int64_t i = 0; i < count; ++i, line_of_y += last.output) {
          ANFORA_INDEPENDENT_ITERATIONS
          for (int64_t k = 0; k < last.output; ++k) line_of_y[k] /= counted[static_cast<size_t>(i)] * counts[static_cast<size_t>(k)];
        }
      }
    }
  });
}

class PoolingLoops : public PreparedKernel {
 public:
  explicit PoolingLoops(const KernelData& data)
      : attributes_(data.attributes),
        is_mean_(data.op.ends_with("AveragePool")),
        counts_padding_(data.attributes.get_int("count_include_pad", 0) != 0),
        channels_last_(data.attributes.get_int("channels_last", 0) != 0),
        reference_(reference_kernels().find(data.op)) {}

  bool writes_rows_apart(size_t i) const override { return i == 0 && channels_last_; }
  bool reads_rows_apart(size_t) const override { return channels_last_; }
  void run(KernelContext& context, State*) const override {
    switch (context.input(0).dtype()) {
      case DType::F32: return is_mean_ ? pool<Mean>(context) : pool<Largest<float>>(context);
      case DType::I8: return pool<Largest<int8_t>>(context);
      default: return pool<Largest<uint8_t>>(context);
    }
  }

 private:
  template <class Fold>
  void pool(KernelContext& context) const {
    const Tensor& x = context.input(0);
    if (x.rank() < 3) throw Error(ErrorCode::TypeMismatch, "a pooling needs a batch, axes and channels");
    const std::span<const int64_t> spatial = std::span(x.shape()).subspan(channels_last_ ? 1 : 2, static_cast<size_t>(x.rank()) - 2);
    Window window = read_window(attributes_, spatial.size());
    resolve_window(window, spatial);
    Shape shape{x.dim(0)};
    if (!channels_last_) shape.push_back(x.dim(1));
    for (const WindowAxis& axis : window.axes) shape.push_back(axis.output);
    if (channels_last_) {
      shape.push_back(x.shape().back());
      const OutputRows y = context.allocate_output_rows(0, x.dtype(), shape);
      if (y.tensor.size() > 0) pool_pixels<Fold>(window, context.input_rows(0), counts_padding_, y);
    } else if (is_mostly_padding(window.axes.back())) {
      reference_(context);
    } else {
      Tensor& y = context.allocate_output(0, x.dtype(), shape);
      if (y.size() > 0) fold_planes<Fold>(window, x, counts_padding_, y);
    }
  }

  const AttributeSet& attributes_;
  bool is_mean_, counts_padding_, channels_last_;
  KernelFunction reference_;
};

std::unique_ptr<PreparedKernel> prepare_pooling_loops(KernelData& data) {
  const DType dtype = data.input(0).dtype;
  const bool has_loops = dtype == DType::F32 || (data.op.ends_with("MaxPool") && (dtype == DType::I8 || dtype == DType::U8));
  if (!has_loops || data.num_outputs != 1) return nullptr;
  return std::make_unique<PoolingLoops>(data);
}

}  // namespace

void prepare_poolings(PreparedRegistry& registry) {
  for (const char* op : {"MaxPool", "AveragePool", "LoweredMaxPool", "LoweredAveragePool"}) registry.add(op, "loops:pooling", prepare_pooling_loops);
}

}  // namespace anfora::kernels
