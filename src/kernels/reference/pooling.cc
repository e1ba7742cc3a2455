// Poolings: one number of each window of a plane, plane by plane.
//
// A window is cut to the taps that read the input, axis by axis, before its elements are visited, so that no element is
// tested for being padding. Sums and maxima of windows are folded a line of the result at a time, first across lines of the
// input, then along the line, so that both loops vectorize:
//
//     lines of the input   a b c d e f       line   A B C D E F       result   A∘B∘C  C∘D∘E  E∘F
//                          g h i j k l  ──▶         A = a∘g …    ──▶
//
// Where the place of the largest element is wanted, too, windows are visited one by one.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>
#include <optional>
#include <vector>

#include "kernels/reference/accumulate.h"
#include "kernels/reference/fold.h"
#include "kernels/reference/families.h"
#include "kernels/reference/window.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels {
namespace {

// Elements read that are worth a thread of their own.
constexpr int64_t kPoolingGrain = 16384;

// The part of one window that reads the input.
class WindowCursor {
 public:
  explicit WindowCursor(const Window& window)
      : window_(window), at_(window.rank(), 0), taps_(window.rank()), tap_(window.rank()) {}

  // Calls body(offset, count, step) for each line of the window of output `position` (row-major): `count` elements of
  // the plane from `offset` on, `step` apart.
  template <class Body>
  void for_each_line(int64_t position, Body&& body) {
    size_t rank = window_.rank();
    for (size_t i = rank; i-- > 0; position /= window_.axes[i].output) {
      at_[i] = position % window_.axes[i].output;
      taps_[i] = window_.axes[i].taps_inside(at_[i]);
      if (taps_[i].first == taps_[i].last) return;
      tap_[i] = taps_[i].first;
    }
    const WindowAxis& last = window_.axes.back();
    while (true) {
      int64_t offset = 0;
      for (size_t i = 0; i < rank; ++i) {
        offset = offset * window_.axes[i].input + window_.axes[i].start(at_[i]) + tap_[i] * window_.axes[i].dilation;
      }
      body(offset, taps_.back().last - taps_.back().first, last.dilation);
      size_t axis = rank - 1;
      while (axis > 0 && ++tap_[axis - 1] == taps_[axis - 1].last) {
        tap_[axis - 1] = taps_[axis - 1].first;
        --axis;
      }
      if (axis == 0) return;
    }
  }

  int64_t taps_with_padding() const {
    int64_t count = 1;
    for (size_t i = 0; i < window_.rank(); ++i) count *= window_.axes[i].taps_with_padding(at_[i]);
    return count;
  }

 private:
  const Window& window_;
  Shape at_;
  boost::container::small_vector<WindowAxis::Taps, 3> taps_;
  Shape tap_;
};

Shape pooled_shape(const Tensor& x, const Window& window) {
  Shape shape{x.dim(0), x.dim(1)};
  for (const WindowAxis& axis : window.axes) shape.push_back(axis.output);
  return shape;
}

Window pooling_window(const KernelContext& context, const Tensor& x) {
  Window window = read_window(context.attributes(), spatial_dims(x).size());
  resolve_window(window, spatial_dims(x));
  return window;
}

// Calls body(cursor, plane, output position) for every output; the threads share out the planes' outputs.
template <class Body>
void for_each_window(const Window& window, int64_t planes, Body&& body) {
  int64_t outputs = window.outputs();
  parallel_for(planes * outputs, grain_of(kPoolingGrain, window.taps()), [&](int64_t begin, int64_t end) {
    WindowCursor cursor(window);
    for (int64_t i = begin; i < end; ++i) body(cursor, i / outputs, i % outputs);
  });
}

// result[i] = merge(result[i], line[kStride · i]).
template <int kStride, class Acc, class Merge>
void merge_taps(const Acc* line, int64_t stride, int64_t count, const Merge& merge, Acc* result) {
  const int64_t step = kStride > 0 ? kStride : stride;
  ANFORA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < count; ++i) result[i] = merge(result[i], line[i * step]);
}

// y = finish(all elements of the window, number of taps): from `initial` on, take() adds an element, merge() what was added to another.
template <class Acc, class T, class Take, class Merge, class Finish>
void pool_lines(const Window& window, const Tensor& x, T* y, bool count_padding, Acc initial, Take take, Merge merge, Finish finish) {
  const WindowAxis& last = window.axes.back();
  Window outer = window;  // of lines
  outer.axes.pop_back();
  if (outer.axes.empty()) outer.axes.push_back({.kernel = 1, .input = 1, .output = 1});
  const int64_t inputs = window.inputs(), lines = outer.outputs(), planes = x.dim(0) * x.dim(1);
  const T* data = x.data<T>().data();
  Scratch<int32_t> taps(static_cast<size_t>(last.output));  // along the line
  int64_t first_tap = last.kernel, end_tap = 0;             // that read the input
  for (int64_t i = 0; i < last.output; ++i) {
    const WindowAxis::Taps inside = last.taps_inside(i);
    taps[static_cast<size_t>(i)] = static_cast<int32_t>(count_padding ? last.taps_with_padding(i) : inside.last - inside.first);
    if (inside.first < inside.last) first_tap = std::min(first_tap, inside.first), end_tap = std::max(end_tap, inside.last);
  }
  // What is merged into the result: elements of a line that are a stride apart.
  struct Run {
    int64_t from, to, count;
  };
  ScratchVector<Run> runs;
  const auto add_run = [&](int64_t tap, int64_t output, int64_t count) { runs.push_back({last.start(output) + tap * last.dilation, output, count}); };
  if (end_tap - first_tap <= last.input + last.output) {
    for (int64_t tap = first_tap; tap < end_tap; ++tap) {
      const WindowAxis::Taps outputs = last.outputs_inside(tap);
      if (outputs.first < outputs.last) add_run(tap, outputs.first, outputs.last - outputs.first);
    }
  } else {  // of wide strides, few of many taps read the input
    for (int64_t output = 0; output < last.output; ++output) {
      const WindowAxis::Taps inside = last.taps_inside(output);
      for (int64_t tap = inside.first; tap < inside.last; ++tap) add_run(tap, output, 1);
    }
  }
  const auto merge_run = last.stride == 1 ? merge_taps<1, Acc, Merge> : last.stride == 2 ? merge_taps<2, Acc, Merge> : merge_taps<0, Acc, Merge>;
  parallel_for(planes * lines, grain_of(kPoolingGrain, outer.taps() * last.input + last.kernel * last.output), [&](int64_t begin, int64_t end) {
    WindowCursor cursor(outer);
    Scratch<Acc> line(static_cast<size_t>(last.input)), result(static_cast<size_t>(last.output));
    for (int64_t i = begin; i < end; ++i) {
      std::fill(line.begin(), line.end(), initial);
      std::fill(result.begin(), result.end(), initial);
      const T* plane = data + i / lines * inputs;
      int64_t count = 0;
      cursor.for_each_line(i % lines, [&](int64_t offset, int64_t length, int64_t step) {
        for (int64_t tap = 0; tap < length; ++tap) {
          const T* from = plane + (offset + tap * step) * last.input;
          Acc* to = line.data();
          ANFORA_INDEPENDENT_ITERATIONS
          for (int64_t k = 0; k < last.input; ++k) to[k] = take(to[k], from[k]);
        }
        count += length;
      });
      if (count_padding) count = cursor.taps_with_padding();
      for (const Run& run : runs) merge_run(line.data() + run.from, last.stride, run.count, merge, result.data() + run.to);
      T* to = y + i * last.output;
      ANFORA_INDEPENDENT_ITERATIONS
      for (int64_t k = 0; k < last.output; ++k) to[k] = static_cast<T>(finish(result[k], count * taps[k]));
    }
  });
}

// y = finish(sum of term(x) over the window, taps to divide by).
template <class T, class Term, class Finish>
void pool_sums(const Window& window, const Tensor& x, T* y, bool count_padding, Term term, Finish finish) {
  pool_lines<double>(
      window, x, y, count_padding, 0.0, [&](double sum, T element) { return sum + term(static_cast<double>(element)); }, std::plus(), finish);
}

void average_pool(KernelContext& context) {
  const Tensor& x = context.input(0);
  Window window = pooling_window(context, x);
  bool count_padding = context.attributes().get_int("count_include_pad", 0) != 0;
  Tensor wide = widen(context, x);
  WideOutput y(context, 0, x.dtype(), pooled_shape(x, window));
  dispatch<FloatAccumulators>(wide.dtype(), [&]<class T>() {
    pool_sums<T>(window, wide, y.data<T>(), count_padding, std::identity(),
                 [](double sum, int64_t count) { return count > 0 ? sum / static_cast<double>(count) : 0.0; });
  });
  y.finish();
}

// |x|^p, and the root of a sum of them.
struct LpNorm {
  double p;
  double term(double x) const { return p == 2 ? x * x : p == 1 ? std::fabs(x) : std::pow(std::fabs(x), p); }
  double root(double sum) const { return p == 2 ? std::sqrt(sum) : p == 1 ? sum : std::pow(sum, 1 / p); }
};

LpNorm read_norm(const KernelContext& context) {
  int64_t p = context.attributes().get_int("p", 2);
  if (p < 1) throw Error(ErrorCode::InvalidModel, fmt::format("a norm with p = {}", p));
  return {static_cast<double>(p)};
}

void lp_pool(KernelContext& context) {
  const Tensor& x = context.input(0);
  Window window = pooling_window(context, x);
  LpNorm norm = read_norm(context);
  Tensor wide = widen(context, x);
  WideOutput y(context, 0, x.dtype(), pooled_shape(x, window));
  dispatch<FloatAccumulators>(wide.dtype(), [&]<class T>() {
    pool_sums<T>(
        window, wide, y.data<T>(), false, [&](double value) { return norm.term(value); },
        [&](double sum, int64_t) { return norm.root(sum); });
  });
  y.finish();
}

// a is to be replaced by b in a maximum: NaN wins over every number. Without a branch, so that loops vectorize.
template <class T>
bool exceeds(T b, T a) {
  return (b > a) | ((b != b) & (a == a));
}

// The flat index of an element of a plane when the plane is stored column by column.
int64_t column_major(const Window& window, int64_t offset) {
  int64_t result = 0, remaining = window.inputs();
  for (size_t i = window.rank(); i-- > 0; offset /= window.axes[i].input) {
    remaining /= window.axes[i].input;
    result += offset % window.axes[i].input * (remaining > 0 ? remaining : 1);
  }
  return result;
}

template <class T>
void pool_maxima(const Window& window, const Tensor& x, T* y) {
  pool_lines<T>(window, x, y, false, MaxFold::initial<T>, MaxFold(), MaxFold(), [](T best, int64_t) { return best; });
}

// With where they are, if that is wanted. Without it, bytes come here only where a line is mostly padding (pooling_loops.cc).
template <class T>
void pool_maxima(const Window& window, const Tensor& x, T* y, int64_t* indices, bool by_columns) {
  if constexpr (std::is_floating_point_v<T>) {
    if (!indices) return pool_maxima(window, x, y);
  }
  const T* data = x.data<T>().data();
  int64_t inputs = window.inputs(), outputs = window.outputs();
  for_each_window(window, x.dim(0) * x.dim(1), [&](WindowCursor& cursor, int64_t plane, int64_t position) {
    T best = MaxFold::initial<T>;
    int64_t where = -1;
    cursor.for_each_line(position, [&](int64_t offset, int64_t length, int64_t step) {
      const T* from = data + plane * inputs + offset;
      if (where < 0) best = from[0], where = offset;
      for (int64_t i = 0; i < length; ++i) {
        if (exceeds(from[i * step], best)) best = from[i * step], where = offset + i * step;
      }
    });
    y[plane * outputs + position] = best;
    if (!indices) return;
    where = std::max<int64_t>(where, 0);  // a window of nothing but padding
    indices[plane * outputs + position] = plane * inputs + (by_columns ? column_major(window, where) : where);
  });
}

void max_pool(KernelContext& context) {
  const Tensor& x = context.input(0);
  Window window = pooling_window(context, x);
  bool by_columns = context.attributes().get_int("storage_order", 0) != 0;
  Shape shape = pooled_shape(x, window);
  int64_t* indices = nullptr;
  if (context.num_outputs() > 1) indices = context.allocate_output(1, DType::I64, shape).data<int64_t>().data();
  if (x.dtype() == DType::I8 || x.dtype() == DType::U8) {
    Tensor& y = context.allocate_output(0, x.dtype(), shape);
    dispatch<TypeList<int8_t, uint8_t>>(
        x.dtype(), [&]<class T>() { pool_maxima<T>(window, x, y.data<T>().data(), indices, by_columns); });
    return;
  }
  Tensor wide = widen(context, x);
  WideOutput y(context, 0, x.dtype(), shape);
  dispatch<FloatAccumulators>(wide.dtype(),
                              [&]<class T>() { pool_maxima<T>(window, wide, y.data<T>(), indices, by_columns); });
  y.finish();
}

// Adds each element of dy to dx where the first largest element of its window is. Images are [outer, spatial…, inner], of which the inner
// ones, channels that come last, are treated side by side.
// Where an element is as `Index`, which an image needs no more than.
template <class Index, class T>
void route_to_maxima(const Window& window, int64_t outer, int64_t inner, const T* x, const T* dy, T* dx) {
  const int64_t inputs = window.inputs(), outputs = window.outputs();
  parallel_for(outer, grain_of(kPoolingGrain, outputs * window.taps() * inner), [&](int64_t begin, int64_t end) {
    WindowCursor cursor(window);
    Scratch<T> best(inner);
    Scratch<Index> where(inner);
    for (int64_t i = begin; i < end; ++i) {
      const T* image = x + i * inputs * inner;
      T* to = dx + i * inputs * inner;
      const T* from = dy + i * outputs * inner;
      std::fill_n(to, inputs * inner, T{});
      for (int64_t position = 0; position < outputs; ++position) {
        bool is_first = true;
        cursor.for_each_line(position, [&](int64_t offset, int64_t length, int64_t step) {
          for (int64_t tap = 0; tap < length; ++tap) {
            const Index at = static_cast<Index>((offset + tap * step) * inner);
            if (std::exchange(is_first, false)) {
              std::copy_n(image + at, inner, best.begin());
              std::iota(where.begin(), where.end(), at);
              continue;
            }
            for (Index c = 0; c < static_cast<Index>(inner); ++c) {
              const T value = image[at + c], largest = best[c];
              const bool is_larger = exceeds(value, largest);
              best[c] = is_larger ? value : largest;
              where[c] = is_larger ? at + c : where[c];
            }
          }
        });
        // A window of nothing but padding has its largest element at the first, as the indices of MaxPool say.
        if (is_first) std::iota(where.begin(), where.end(), Index{0});
        for (int64_t c = 0; c < inner; ++c) to[where[c]] += from[position * inner + c];
      }
    }
  });
}

void max_pool_gradient(KernelContext& context) {
  const Tensor &x = context.input(0), &dy = context.input(1);
  const bool channels_last = context.attributes().get_int("channels_last", 0) != 0;
  Shape shape = x.shape();
  if (channels_last) std::rotate(shape.begin() + 1, shape.end() - 1, shape.end());
  Window window = read_window(context.attributes(), shape.size() - 2);
  resolve_window(window, std::span(shape).subspan(2));
  if (dy.size() != shape[0] * shape[1] * window.outputs()) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("a gradient of shape {} for windows of an input of shape {}",
                                                     to_string(dy.shape()), to_string(x.shape())));
  }
  Tensor wide_x = widen(context, x), wide_dy = widen(context, dy);
  WideOutput dx(context, 0, x.dtype(), x.shape());
  const int64_t outer = channels_last ? shape[0] : shape[0] * shape[1], inner = channels_last ? shape[1] : 1;
  const bool is_small = window.inputs() * inner <= std::numeric_limits<int32_t>::max();
  dispatch<FloatAccumulators>(wide_x.dtype(), [&]<class T>() {
    auto route = is_small ? route_to_maxima<int32_t, T> : route_to_maxima<int64_t, T>;
    route(window, outer, inner, wide_x.data<T>().data(), wide_dy.data<T>().data(), dx.data<T>());
  });
  dx.finish();
}

// Calls body(first element of the plane, number of them) for every plane, and stores what it returns.
template <class Body>
void pool_planes(KernelContext& context, Body&& body) {
  const Tensor& x = context.input(0);
  if (x.rank() < 2) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("a global pooling of a tensor of shape {}", to_string(x.shape())));
  }
  Shape shape(x.rank(), 1);
  shape[0] = x.dim(0), shape[1] = x.dim(1);
  int64_t planes = shape[0] * shape[1], elements = element_count(std::span(x.shape()).subspan(2));
  Tensor wide = widen(context, x);
  WideOutput y(context, 0, x.dtype(), shape);
  dispatch<FloatAccumulators>(wide.dtype(), [&]<class T>() {
    const T* from = wide.data<T>().data();
    T* to = y.data<T>();
    parallel_for(planes, grain_of(kPoolingGrain, elements), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = static_cast<T>(body(from + i * elements, elements));
    });
  });
  y.finish();
}

void global_average_pool(KernelContext& context) {
  pool_planes(context, [](auto* from, int64_t count) {
    return fold_row<double>(from, count, SumFold{}) / static_cast<double>(count);
  });
}

void global_max_pool(KernelContext& context) {
  pool_planes(context, [](auto* from, int64_t count) {
    return fold_row<std::remove_cvref_t<decltype(*from)>>(from, count, MaxFold{});
  });
}

void global_lp_pool(KernelContext& context) {
  LpNorm norm = read_norm(context);
  pool_planes(context, [norm](auto* from, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += norm.term(static_cast<double>(from[i]));
    return norm.root(sum);
  });
}

// The shape that MaxUnpool's attributes imply, the inverse of MaxPool's.
Shape unpooled_shape(const KernelContext& context, const Tensor& x) {
  Window window = read_window(context.attributes(), spatial_dims(x).size());
  Shape shape{x.dim(0), x.dim(1)};
  for (size_t i = 0; i < window.rank(); ++i) {
    const WindowAxis& axis = window.axes[i];
    shape.push_back(transposed_output(axis, AutoPad::NotSet, 0, x.dim(static_cast<int>(i) + 2), axis.reach()));
  }
  return shape;
}

void max_unpool(KernelContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& indices = context.input(1);
  const Tensor* output_shape = context.optional_input(2);
  if (indices.shape() != x.shape()) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("indices of shape {} for values of shape {}",
                                                     to_string(indices.shape()), to_string(x.shape())));
  }
  // Indices address the shape that the attributes imply; a larger output_shape adds zeros after each axis' end.
  Shape implied = unpooled_shape(context, x), shape = implied;
  if (output_shape) {
    std::span<const int64_t> wanted = output_shape->data<int64_t>();
    shape.assign(wanted.begin(), wanted.end());
    bool fits = shape.size() == implied.size();
    for (size_t i = 0; fits && i < shape.size(); ++i) fits = shape[i] >= implied[i];
    if (!fits) {
      throw Error(ErrorCode::TypeMismatch,
                  fmt::format("output_shape {} does not hold the unpooled {}", to_string(shape), to_string(implied)));
    }
  }
  int64_t addressable = element_count(implied);
  Tensor& y = context.allocate_output(0, x.dtype(), shape);
  dispatch_by_size(x.dtype(), [&]<class T>() {
    std::span<T> out = y.data<T>();
    std::span<const T> values = x.data<T>();
    std::fill(out.begin(), out.end(), T{});
    std::span<const int64_t> at = indices.data<int64_t>();
    for (size_t i = 0; i < values.size(); ++i) {
      if (at[i] < 0 || at[i] >= addressable) {
        throw Error(ErrorCode::InvalidArgument, fmt::format("index {} is outside of {}", at[i], to_string(implied)));
      }
      int64_t rest = at[i], offset = 0, stride = 1;
      for (size_t axis = shape.size(); axis-- > 0; rest /= implied[axis]) {
        offset += rest % implied[axis] * stride;
        stride *= shape[axis];
      }
      out[offset] = values[i];
    }
  });
}

}  // namespace

void register_pooling(KernelRegistry& registry) {
  registry.add("AveragePool", average_pool);
  registry.add("LpPool", lp_pool);
  registry.add("MaxPool", max_pool);
  registry.add("LoweredMaxPoolGradient", max_pool_gradient);
  registry.add("GlobalAveragePool", global_average_pool);
  registry.add("GlobalMaxPool", global_max_pool);
  registry.add("GlobalLpPool", global_lp_pool);
  registry.add("MaxUnpool", max_unpool);
}

}  // namespace anfora::kernels
