// Poolings of images whose channels come last: the largest, or the mean, of what a window sees, for some channels side by side in registers.
//
//     y[line, column, c] = max, Σ / count  of  x[line', column', c]      over the window's taps that read the image
//
// Where x is f32 the sums are, too: windows are small.
#include <cstring>
#include <memory>
#include <ranges>
#include <span>
#include <type_traits>

#include "anfora/error.h"
#include "kernels/reference/fold.h"
#include "kernels/reference/prepared.h"
#include "kernels/reference/window.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels {
namespace {

constexpr size_t kVectorBytes = 32;

template <class T>
using Vector [[gnu::vector_size(kVectorBytes)]] = T;

// Folds are of vectors, or of single elements.
struct LargestOfTaps {
  template <class T>
  static constexpr T initial = MaxFold::initial<T>;
  // As MaxFold: a NaN stays.
  template <class V>
  static V fold(V so_far, V x) {
    V larger = x > so_far ? x : so_far;
#ifdef __AVX__
    if constexpr (std::is_same_v<V, Vector<float>>) larger = __builtin_ia32_maxps256(x, so_far);  // the same, in one instruction
#endif
    return x != x ? x : larger;
  }
  template <class V>
  static V finish(V value, int64_t) {
    return value;
  }
};

struct MeanOfTaps {
  template <class T>
  static constexpr T initial = 0;
  template <class V>
  static V fold(V so_far, V x) {
    return so_far + x;
  }
  template <class V>
  static V finish(V sum, int64_t count) {
    return count == 0 ? V{} : sum / static_cast<float>(count);
  }
};

// y[i] = finish(fold of tap[i] of all taps).
template <class Fold, class T, class Finish>
void fold_taps(std::span<const T* const> taps, int64_t count, T* y, const Finish& finish) {
  constexpr int64_t kLanes = kVectorBytes / sizeof(T);
  const auto load = [](const T* from) {
    Vector<T> lanes;
    std::memcpy(&lanes, from, sizeof lanes);
    return lanes;
  };
  const auto store = [&](Vector<T> value, T* to) {
    value = finish(value);
    std::memcpy(to, &value, sizeof value);
  };
  const Vector<T> initial = Vector<T>{} + Fold::template initial<T>;
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    Vector<T> a = initial, b = initial, c = initial, d = initial;
    for (const T* tap : taps) {
      const T* from = tap + i;
      a = Fold::fold(a, load(from)), b = Fold::fold(b, load(from + kLanes));
      c = Fold::fold(c, load(from + 2 * kLanes)), d = Fold::fold(d, load(from + 3 * kLanes));
    }
    store(a, y + i), store(b, y + i + kLanes), store(c, y + i + 2 * kLanes), store(d, y + i + 3 * kLanes);
  }
  for (; i + kLanes <= count; i += kLanes) {
    Vector<T> value = initial;
    for (const T* tap : taps) value = Fold::fold(value, load(tap + i));
    store(value, y + i);
  }
  for (; i < count; ++i) {
    T value = Fold::template initial<T>;
    for (const T* tap : taps) value = Fold::fold(value, tap[i]);
    y[i] = finish(value);
  }
}

// Window i's number of taps to divide by.
int64_t counted_taps(const WindowAxis& axis, int64_t i, bool counts_padding) {
  const WindowAxis::Taps inside = axis.taps_inside(i);
  return counts_padding ? axis.taps_with_padding(i) : inside.last - inside.first;
}

template <class Fold, class T>
void pool_pixels(const Window& window, const Tensor& x, bool counts_padding, Tensor& y) {
  constexpr int64_t kGrain = 65536;  // elements read
  const WindowAxis& last = window.axes.back();
  const std::span<const WindowAxis> outer(window.axes.data(), window.rank() - 1);
  const int64_t channels = x.dim(x.rank() - 1), lines = y.size() / (last.output * channels), taps_of_lines = window.taps() / last.kernel;
  // Where windows overlap enough, the lines that they see are folded into one first.
  const bool folds_lines = taps_of_lines > 1 && (taps_of_lines + 1) * last.input + last.kernel * last.output < taps_of_lines * last.kernel * last.output;
  struct Column {
    int64_t first_tap, taps, counted;  // first_tap: element of a line
  };
  Scratch<Column> columns(static_cast<size_t>(last.output));
  for (int64_t i = 0; i < last.output; ++i) {
    const WindowAxis::Taps inside = last.taps_inside(i);
    columns[static_cast<size_t>(i)] = {(last.start(i) + inside.first * last.dilation) * channels, inside.last - inside.first, counted_taps(last, i, counts_padding)};
  }
  const T* from = x.data<T>().data();
  T* const to = y.data<T>().data();
  parallel_for(lines, grain_of(kGrain, last.output * window.taps() * channels), [&](int64_t begin, int64_t end) {
    ScratchVector<const T*> first_pixels, taps;  // of the lines that windows of a line of y see
    Scratch<T> folded(folds_lines ? static_cast<size_t>(last.input * channels) : 0);
    for (int64_t line = begin; line < end; ++line) {
      first_pixels.assign(1, from);
      int64_t count = 1, rest = line, size = last.input * channels;
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
        fold_taps<Fold, T>(first_pixels, last.input * channels, folded.data(), [](auto value) { return value; });
        first_pixels.assign(1, folded.data());
      }
      T* pixel_of_y = to + line * last.output * channels;
      for (const Column& column : columns) {
        taps.clear();
        for (const T* pixel : first_pixels) {
          const T* tap = pixel + column.first_tap;
          for (int64_t i = 0; i < column.taps; ++i, tap += last.dilation * channels) taps.push_back(tap);
        }
        fold_taps<Fold, T>(taps, channels, pixel_of_y, [&](auto value) { return Fold::finish(value, count * column.counted); });
        pixel_of_y += channels;
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

  void run(KernelContext& context, State*) const override {
    const Tensor& x = context.input(0);
    if (x.rank() < 3) throw Error(ErrorCode::TypeMismatch, "a pooling needs a batch, axes and channels");
    const std::span<const int64_t> spatial = std::span(x.shape()).subspan(1, static_cast<size_t>(x.rank()) - 2);
    Window window = read_window(attributes_, spatial.size());
    resolve_window(window, spatial);
    Shape shape{x.dim(0)};
    for (const WindowAxis& axis : window.axes) shape.push_back(axis.output);
    shape.push_back(x.shape().back());
    Tensor& y = context.allocate_output(0, x.dtype(), shape);
    if (y.size() == 0) return;
    switch (x.dtype()) {
      case DType::F32: return is_mean_ ? pool_pixels<MeanOfTaps, float>(window, x, counts_padding_, y) : pool_pixels<LargestOfTaps, float>(window, x, false, y);
      case DType::I8: return pool_pixels<LargestOfTaps, int8_t>(window, x, false, y);
      default: return pool_pixels<LargestOfTaps, uint8_t>(window, x, false, y);
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
