// How a strided copy is made fast.
//
// 1. Axes of size 1 are dropped, and neighbours that both sides walk as one are merged: a Transpose of (0, 2, 3, 1) is
//    one of (0, 2, 1), a Slice of the first axis one memcpy.
// 2. If the last axis is contiguous on both sides it becomes the unit that is copied: 1, 2, 4, 8 or 16 bytes by loads
//    and stores of that size, other lengths by memcpy.
// 3. What remains is a nest of loops over units, in the order of the destination. If some other axis is the contiguous
//    one of the source, it is made the neighbour of the last axis, and the two are walked in tiles as wide as a cache
//    line both ways, blocks of which are transposed in registers:
//
//          source: rows contiguous            destination: columns contiguous
//            c0: r0 r1 r2 … r7                  r0: c0 c1 c2 … c7
//            c1: r0 r1 r2 … r7        =>        r1: c0 c1 c2 … c7
//
// 4. The nest is cut into panels of about kPanelBytes, which threads share. Panels of tiles are kept narrow, since every
//    row and every column of a large matrix lies on a memory page of its own, and the processor remembers few of them.
#include "kernels/reference/strided_copy.h"

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>
#include <complex>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "kernels/reference/arguments.h"
#include "kernels/reference/broadcast.h"
#include "kernels/reference/vectorize.h"
#include "support/element_types.h"
#include "support/parallel.h"

namespace anfora::kernels {
namespace {

constexpr int64_t kPanelBytes = 16 << 10;   // what one step of the outer loop moves, if the shape allows
constexpr int64_t kGrainBytes = 128 << 10;  // what is worth a thread
constexpr int64_t kLineBytes = 64;          // a cache line

struct Axis {
  int64_t extent, to, from;  // strides in bytes
};
using Axes = boost::container::small_vector<Axis, 8>;

Axes collapse(std::span<const int64_t> shape, std::span<const int64_t> to_strides,
              std::span<const int64_t> from_strides, int64_t bytes) {
  Axes axes;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    Axis axis{shape[d], to_strides[d] * bytes, from_strides[d] * bytes};
    if (!axes.empty() && axes.back().to == axis.to * axis.extent && axes.back().from == axis.from * axis.extent) {
      axis.extent *= axes.back().extent;
      axes.back() = axis;
    } else {
      axes.push_back(axis);
    }
  }
  return axes;
}

// The units. Each copies one, or a row of them; `repeat` a row of copies of one.
template <int64_t N>
struct FixedUnit {
  static constexpr int64_t bytes = N;
  static constexpr bool tiled = true;
  void copy(char* to, const char* from) const { std::memcpy(to, from, N); }
  void row(int64_t count, char* to, int64_t to_stride, const char* from, int64_t from_stride) const {
    if (from_stride == 0 && to_stride == N) {
      std::array<char, N> value;
      std::memcpy(value.data(), from, N);
      for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * N, value.data(), N);
    } else if (to_stride == N) {
      for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * N, from + i * from_stride, N);
    } else {
      for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_stride, from + i * from_stride, N);
    }
  }
};

struct RunUnit {
  static constexpr bool tiled = false;
  int64_t bytes;
  void row(int64_t count, char* to, int64_t to_stride, const char* from, int64_t from_stride) const {
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(to + i * to_stride, from + i * from_stride, static_cast<size_t>(bytes));
    }
  }
};

struct StringUnit {
  static constexpr bool tiled = false;
  static constexpr int64_t bytes = sizeof(std::string);
  void row(int64_t count, char* to, int64_t to_stride, const char* from, int64_t from_stride) const {
    for (int64_t i = 0; i < count; ++i) {
      *reinterpret_cast<std::string*>(to + i * to_stride) =
          *reinterpret_cast<const std::string*>(from + i * from_stride);
    }
  }
};

// A block of units: as many rows as fit 16 bytes, twice as many columns. A register holds two columns side by side, so that all moves stay within its halves.
template <int64_t N>
struct Block {
  using SmallUnit = std::conditional_t<N == 1, uint8_t, uint16_t>;
  using Unit = std::conditional_t<N <= 2, SmallUnit, std::conditional_t<N == 4, uint32_t, uint64_t>>;
  static constexpr int rows = 16 / N, columns = 2 * rows;
  using Column = Vector<Unit, rows>;
  using Pair = Vector<Unit, columns>;

  static Pair load(const char* first, const char* second) {
    Column a, b;
    std::memcpy(&a, first, sizeof(a));
    std::memcpy(&b, second, sizeof(b));
    return [&]<int... I>(std::integer_sequence<int, I...>) { return __builtin_shufflevector(a, b, I...); }(std::make_integer_sequence<int, columns>{});
  }

  // Units of the lower (upper) quarters of a and b, in turn, in each half.
  template <bool Upper>
  static Pair interleave(const Pair& a, const Pair& b) {
    return [&]<int... I>(std::integer_sequence<int, I...>) {
      return __builtin_shufflevector(a, b, (I / rows * rows + I % 2 * columns + I % rows / 2 + (Upper ? rows / 2 : 0))...);
    }(std::make_integer_sequence<int, columns>{});
  }

  // Interleaving the columns with those half the block further on, again and again, is what transposes it.
  static void transpose(char* to, int64_t to_row, const char* from, int64_t from_column) {
    Pair pairs[rows], next[rows];
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) pairs[i] = load(from + i * from_column, from + (i + rows) * from_column);
#pragma GCC unroll 4
    for (int step = 1; step < rows; step *= 2) {
#pragma GCC unroll 8
      for (int i = 0; i < rows / 2; ++i) {
        next[2 * i] = interleave<false>(pairs[i], pairs[i + rows / 2]);
        next[2 * i + 1] = interleave<true>(pairs[i], pairs[i + rows / 2]);
      }
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i) pairs[i] = next[i];
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) std::memcpy(to + i * to_row, &pairs[i], sizeof(Pair));
  }
};

// Both sides of a tile are a cache line, at least 8 units, long.
template <int64_t N>
inline constexpr int64_t kTile = std::max<int64_t>(8, kLineBytes / N);

template <int64_t N>
void transpose_tile(char* to, int64_t to_row, const char* from, int64_t from_column) {
  constexpr int64_t size = kTile<N>;
  if constexpr (N < 16) {
    for (int64_t r = 0; r < size; r += Block<N>::rows) {
      for (int64_t c = 0; c < size; c += Block<N>::columns) {
        Block<N>::transpose(to + r * to_row + c * N, to_row, from + c * from_column + r * N, from_column);
      }
    }
  } else {
    for (int64_t r = 0; r < size; ++r) {
      for (int64_t c = 0; c < size; ++c) std::memcpy(to + r * to_row + c * N, from + c * from_column + r * N, N);
    }
  }
}

// Few columns, such as the colours of an image or two halves that are shuffled, become one run of memory: loops that compilers vectorize.
template <class Unit, class... Columns>
void interleave(int64_t rows, Unit* __restrict to, const Columns*... columns) {
  for (int64_t r = 0; r < rows; ++r) {
    int64_t place = static_cast<int64_t>(sizeof...(columns)) * r;
    ((to[place++] = columns[r]), ...);
  }
}

// The other way round.
template <class Unit, class... Rows>
void separate(int64_t columns, const Unit* from, Rows* __restrict... rows) {
  for (int64_t c = 0; c < columns; ++c) {
    int64_t place = static_cast<int64_t>(sizeof...(rows)) * c;
    ((rows[c] = from[place++]), ...);
  }
}

// rows: contiguous in the source; columns: contiguous in the destination.
template <int64_t N>
void transpose_panel(int64_t rows, int64_t columns, char* to, int64_t to_row, const char* from, int64_t from_column) {
  if constexpr (N <= 8) {
    using Unit = Block<N>::Unit;
    const auto column = [&](int64_t c) { return reinterpret_cast<const Unit*>(from + c * from_column); };
    const auto row = [&](int64_t r) { return reinterpret_cast<Unit*>(to + r * to_row); };
    if (rows == 2 && from_column == 2 * N) return separate(columns, column(0), row(0), row(1));
    if (rows == 3 && from_column == 3 * N) return separate(columns, column(0), row(0), row(1), row(2));
    if (columns == 2 && to_row == 2 * N) return interleave(rows, row(0), column(0), column(1));
    if (columns == 3 && to_row == 3 * N) return interleave(rows, row(0), column(0), column(1), column(2));
  }
  constexpr int64_t size = kTile<N>;
  int64_t r = 0;
  for (; r + size <= rows; r += size) {
    int64_t c = 0;
    for (; c + size <= columns; c += size) {
      transpose_tile<N>(to + r * to_row + c * N, to_row, from + c * from_column + r * N, from_column);
    }
    for (; c < columns; ++c) {
      for (int64_t i = r; i < r + size; ++i) std::memcpy(to + i * to_row + c * N, from + c * from_column + i * N, N);
    }
  }
  for (; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) std::memcpy(to + r * to_row + c * N, from + c * from_column + r * N, N);
  }
}

// The axis that is contiguous in the source, when the last one is not; -1 if there is none.
int source_axis(const Axes& axes, int64_t unit) {
  if (axes.back().to != unit || axes.back().from == unit || axes.back().from == 0) return -1;
  for (int d = static_cast<int>(axes.size()) - 2; d >= 0; --d) {
    if (axes[d].from == unit && axes[d].extent > 1) return d;
  }
  return -1;
}

template <class Unit>
void copy_nest(Axes axes, char* to, const char* from, Unit unit) {
  int source = Unit::tiled ? source_axis(axes, unit.bytes) : -1;
  if (source >= 0) std::rotate(axes.begin() + source, axes.begin() + source + 1, axes.end() - 1);
  if (axes.size() < 2) axes.insert(axes.begin(), Axis{1, 0, 0});
  const Axis columns = axes.back(), rows = axes[axes.size() - 2];
  axes.resize(axes.size() - 2);

  int64_t column_step = std::clamp<int64_t>(kPanelBytes / unit.bytes, 1, columns.extent);
  int64_t row_step = std::clamp<int64_t>(kPanelBytes / (column_step * unit.bytes), 1, rows.extent);
  if constexpr (Unit::tiled) {
    if (source >= 0) {
      constexpr int64_t size = kTile<Unit::bytes>;
      row_step = std::min(rows.extent, 16 * size);
      column_step = std::min(columns.extent, std::max(4 * size, kPanelBytes / (row_step * unit.bytes)));
    }
  }
  int64_t column_panels = (columns.extent + column_step - 1) / column_step;
  int64_t row_panels = (rows.extent + row_step - 1) / row_step;
  int64_t outer = 1;
  for (const Axis& axis : axes) outer *= axis.extent;

  int64_t panel_bytes = column_step * row_step * unit.bytes;
  parallel_for(outer * row_panels * column_panels, kGrainBytes / std::min(panel_bytes, kGrainBytes),
               [&](int64_t begin, int64_t end) {
                 for (int64_t item = begin; item < end; ++item) {
                   int64_t c = item % column_panels * column_step, rest = item / column_panels;
                   int64_t r = rest % row_panels * row_step;
                   rest /= row_panels;
                   char* t = to + r * rows.to + c * columns.to;
                   const char* f = from + r * rows.from + c * columns.from;
                   for (size_t d = axes.size(); d-- > 0; rest /= axes[d].extent) {
                     t += rest % axes[d].extent * axes[d].to;
                     f += rest % axes[d].extent * axes[d].from;
                   }
                   int64_t last_row = std::min(row_step, rows.extent - r),
                           last_column = std::min(column_step, columns.extent - c);
                   if constexpr (Unit::tiled) {
                     if (source >= 0) {
                       transpose_panel<Unit::bytes>(last_row, last_column, t, rows.to, f, columns.from);
                       continue;
                     }
                   }
                   for (int64_t i = 0; i < last_row; ++i) {
                     unit.row(last_column, t + i * rows.to, columns.to, f + i * rows.from, columns.from);
                   }
                 }
               });
}

template <class F>
void with_unit(int64_t bytes, F&& f) {
  switch (bytes) {
    case 1: return f(FixedUnit<1>{});
    case 2: return f(FixedUnit<2>{});
    case 4: return f(FixedUnit<4>{});
    case 8: return f(FixedUnit<8>{});
    case 16: return f(FixedUnit<16>{});
    default: return f(RunUnit{bytes});
  }
}

}  // namespace

void strided_copy(DType dtype, std::span<const int64_t> shape, void* to, std::span<const int64_t> to_strides,
                  const void* from, std::span<const int64_t> from_strides) {
  if (std::ranges::find(shape, 0) != shape.end()) return;
  int64_t bytes = static_cast<int64_t>(element_bytes(dtype));
  Axes axes = collapse(shape, to_strides, from_strides, bytes);
  auto* t = static_cast<char*>(to);
  const auto* f = static_cast<const char*>(from);
  if (axes.empty()) axes.push_back({1, bytes, bytes});
  if (dtype == DType::String) return copy_nest(std::move(axes), t, f, StringUnit{});
  if (axes.back().to == bytes && axes.back().from == bytes) {
    if (axes.size() == 1) return dense_copy(dtype, axes[0].extent, to, from);
    bytes *= axes.back().extent;
    axes.pop_back();
  }
  with_unit(bytes, [&](auto unit) { copy_nest(std::move(axes), t, f, unit); });
}

void dense_copy(DType dtype, int64_t count, void* to, const void* from) {
  if (dtype == DType::String) {
    std::copy_n(static_cast<const std::string*>(from), count, static_cast<std::string*>(to));
    return;
  }
  parallel_for(count * static_cast<int64_t>(element_bytes(dtype)), kGrainBytes, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                static_cast<size_t>(end - begin));
  });
}

void dense_fill(DType dtype, int64_t count, void* to, const void* value) {
  dispatch_by_size(dtype, [&]<class T>() {
    parallel_for(count, kGrainBytes / static_cast<int64_t>(sizeof(T)), [&](int64_t begin, int64_t end) {
      std::fill(static_cast<T*>(to) + begin, static_cast<T*>(to) + end, *static_cast<const T*>(value));
    });
  });
}

IndexMap find_segments(std::span<const int64_t> table, Segment* segments) {
  size_t count = 0;
  for (int64_t i = 0; i < std::ssize(table); ++i) {
    const int64_t source = table[static_cast<size_t>(i)];
    Segment* const last = count > 0 ? &segments[count - 1] : nullptr;
    const bool is_filled = source < 0, continues_fill = last && last->source < 0;
    if (last && is_filled == continues_fill) {
      if (last->length == 1 && !is_filled) last->step = source - last->source;
      if (is_filled || source == last->source + last->length * last->step) {
        ++last->length;
        continue;
      }
    }
    segments[count++] = {i, 1, is_filled ? -1 : source, 0};
  }
  return {segments, count};
}

namespace {

bool is_identity(IndexMap map, int64_t size) {
  const auto is_whole = [&](const Segment& s) { return s.length == size && s.source == 0 && (s.step == 1 || size == 1); };
  return size == 0 ? map.empty() : map.size() == 1 && is_whole(map.front());
}

// How often a map names each index from 0 on, where it names all of them as often; else 1.
int64_t repetitions(IndexMap map) {
  const int64_t times = map.front().length;
  for (int64_t i = 0; i < std::ssize(map); ++i) {
    const Segment& s = map[static_cast<size_t>(i)];
    if (s.source != i || s.step != 0 || s.length != times) return 1;
  }
  return times;
}

// Where an axis is at while rows are walked in order.
class Cursor {
 public:
  Cursor(IndexMap map, int64_t index) : map_(map), segment_(map.begin()), index_(index) {
    while (index >= segment_->begin + segment_->length) ++segment_;
  }
  // -1: what is filled.
  int64_t source() const { return segment_->source < 0 ? -1 : segment_->source + (index_ - segment_->begin) * segment_->step; }
  // False behind the last index, after which the first comes again.
  bool advance() {
    if (++index_ < segment_->begin + segment_->length) return true;
    if (++segment_ != map_.end()) return true;
    segment_ = map_.begin();
    index_ = 0;
    return false;
  }

 private:
  IndexMap map_;
  IndexMap::iterator segment_;
  int64_t index_;
};

// What an axis has for each index: so many elements side by side, so far from those of the index before.
struct Runs {
  int64_t length, from, to;
  bool are_dense() const { return from == length && to == length; }
};

// Calls of memcpy take longer than what they copy.
template <class T>
void copy_few(const T* from, int64_t count, T* to) {
  constexpr int64_t kStep = 16 / static_cast<int64_t>(sizeof(T)), kMost = 16 * kStep;
  if constexpr (std::is_trivially_copyable_v<T> && kStep > 1) {
    if (count >= kStep && count <= kMost) {
      for (int64_t i = 0; i + kStep <= count; i += kStep) std::memcpy(to + i, from + i, 16);
      std::memcpy(to + count - kStep, from + count - kStep, 16);
      return;
    }
  }
  std::copy_n(from, count, to);
}

// `count` runs: of indices `step` apart, into those side by side.
template <class T>
[[gnu::noinline]] void copy_runs(const T* from, int64_t step, int64_t count, Runs runs, T* to) {
  if (runs.are_dense() && step == 1) {
    std::copy_n(from, count * runs.length, to);
  } else {
    for (int64_t i = 0; i < count; ++i, from += step * runs.from, to += runs.to) copy_few(from, runs.length, to);
  }
}
template <class T>
[[gnu::noinline]] void fill_runs(const T& value, int64_t count, Runs runs, T* to) {
  if (runs.to == runs.length) {
    std::fill_n(to, count * runs.length, value);
  } else {
    for (int64_t i = 0; i < count; ++i) std::fill_n(to + i * runs.to, runs.length, value);
  }
}

// What of a row lies in [begin, end).
template <class T>
void copy_segment(const Segment& segment, int64_t begin, int64_t end, Runs runs, const T* from, T none, T* to) {
  begin = std::max(begin, segment.begin);
  const int64_t length = std::min(end, segment.begin + segment.length) - begin;
  if (length <= 0) return;
  T* const t = to + begin * runs.to;
  if (segment.source < 0) return fill_runs(none, length, runs, t);
  const T* const f = from + (segment.source + (begin - segment.begin) * segment.step) * runs.from;
  if (length * runs.length == 1) {
    *t = *f;
  } else if (segment.step == 1 || runs.length > 1 || !runs.are_dense()) {
    copy_runs(f, segment.step, length, runs, t);
  } else if (segment.step == 0) {
    std::fill_n(t, length, *f);
  } else {
    for (int64_t i = 0; i < length; ++i) t[i] = f[i * segment.step];
  }
}

// Each of `count` elements so many times.
template <class T>
void repeat_elements(const T* from, int64_t count, int64_t times, T* to) {
  if (times == 2) {
    ANFORA_INDEPENDENT_ITERATIONS
    for (int64_t i = 0; i < count; ++i) to[2 * i] = to[2 * i + 1] = from[i];
  } else {
    for (int64_t i = 0; i < count; ++i) std::fill_n(to + i * times, times, from[i]);
  }
}

}  // namespace

void mapped_copy(KernelContext& context, const InputRows& source_rows, const OutputRows& target_rows, std::span<const IndexMap> maps, const void* fill) {
  const Tensor& from = source_rows.tensor;
  Tensor& to = target_rows.tensor;
  if (to.size() == 0) return;
  if (to.rank() == 0) return dense_copy(to.dtype(), 1, to.raw(), from.raw());
  int last = to.rank() - 1;  // the innermost axis that is not copied as it is; what is below moves in one run
  const bool are_apart = source_rows.are_apart() || target_rows.are_apart();
  while (last > (are_apart ? std::max(0, to.rank() - 2) : 0) && is_identity(maps[last], from.dim(last))) --last;
  const IndexMap segments = maps[last];
  const int64_t run = extent(to.shape(), last + 1, to.rank()), length = to.dim(last);
  const bool of_elements = last == to.rank() - 1, of_rows = last == to.rank() - 2;
  const Runs runs = of_rows ? Runs{run, source_rows.stride, target_rows.stride} : Runs{run, run, run};
  const int64_t row = length * run, rows = to.size() / row;
  const bool of_numbers = run == 1 && runs.are_dense();
  const int64_t times = of_numbers ? repetitions(segments) : 1;
  // What is short of one another goes through a table.
  const bool is_scattered = of_numbers && times == 1 && std::ssize(segments) * 4 > length && std::ranges::all_of(segments, [](const Segment& s) { return s.source >= 0; });
  const std::span<int64_t> table = context.workspace_of<int64_t>(is_scattered ? static_cast<size_t>(length) : 0);
  if (is_scattered) {
    for (const Segment& s : segments) {
      for (int64_t i = 0; i < s.length; ++i) table[static_cast<size_t>(s.begin + i)] = s.source + i * s.step;
    }
  }
  const int64_t row_stride = of_elements ? target_rows.stride : length * runs.to;
  const Shape strides = strides_of(source_rows, from.shape());
  dispatch_by_size(to.dtype(), [&]<class T>() {
    const T* source = from.data<T>().data();
    T* target = to.data<T>().data();
    T none{};
    if (fill) none = *static_cast<const T*>(fill);
    const auto copy_part = [&](const T* f, int64_t begin, int64_t end, T* t) {
      if (is_scattered) {
        for (int64_t i = begin; i < end; ++i) t[i] = f[table[static_cast<size_t>(i)]];
      } else {
        for (const Segment& s : segments) copy_segment(s, begin, end, runs, f, none, t);
      }
    };
    const int64_t bytes = row * static_cast<int64_t>(sizeof(T));
    if (last == 0 && times == 1) {  // one row, which threads share
      parallel_for(length, std::max<int64_t>(1, kGrainBytes * length / bytes), [&](int64_t begin, int64_t end) { copy_part(source, begin, end, target); });
      return;
    }
    parallel_for(rows, std::max<int64_t>(1, kGrainBytes / bytes), [&](int64_t begin, int64_t end) {
      boost::container::small_vector<Cursor, 8> at;  // of the row, in the axes before the last
      for (int64_t d = last - 1, rest = begin; d >= 0; rest /= to.dim(static_cast<int>(d)), --d) at.emplace_back(maps[static_cast<size_t>(d)], rest % to.dim(static_cast<int>(d)));
      std::ranges::reverse(at);
      T* t = target + begin * row_stride;
      int64_t before = -1;  // what `here` was for the row before, in the same image
      for (int64_t i = begin; i < end; ++i, t += row_stride) {
        int64_t offset = 0, here = -1;  // here: the source of the innermost of these axes
        bool is_outside = false;
        for (int d = 0; d < last; ++d) {
          here = at[static_cast<size_t>(d)].source();
          is_outside = is_outside || here < 0;
          offset += here * strides[d];
        }
        if (is_outside) {
          fill_runs(none, length, runs, t);
        } else if (here >= 0 && here == before) {  // as in an image that becomes larger
          copy_runs(t - row_stride, 1, length, {run, runs.to, runs.to}, t);
        } else if (times > 1) {
          repeat_elements(source + offset, length / times, times, t);
        } else {
          copy_part(source + offset, 0, length, t);
        }
        before = here;
        for (int d = last - 1; d >= 0 && !at[static_cast<size_t>(d)].advance(); --d) before = -1;
      }
    });
  });
}

void take(const Tensor& from, int axis, std::span<const int64_t> indices, Tensor& to) {
  if (to.size() == 0) return;
  const int64_t outer = extent(from.shape(), 0, axis), run = extent(from.shape(), axis + 1, from.rank());
  const int64_t row = from.dim(axis) * run, count = std::ssize(indices);
  if (outer * count == 1 && to.raw() == element_at(from, indices[0] * run)) return;  // planned as a part of `from`
  dispatch_by_size(from.dtype(), [&]<class T>() {
    const T* source = from.data<T>().data();
    T* target = to.data<T>().data();
    const int64_t bytes = run * static_cast<int64_t>(sizeof(T));
    parallel_for(outer * count, std::max<int64_t>(1, kGrainBytes / bytes), [&](int64_t begin, int64_t end) {
      int64_t o = begin / count, k = begin % count;
      for (int64_t i = begin; i < end; ++i) {
        const T* slice = source + o * row + indices[static_cast<size_t>(k)] * run;
        if (run == 1) {
          target[i] = *slice;
        } else {
          std::copy_n(slice, run, target + i * run);
        }
        if (++k == count) k = 0, ++o;
      }
    });
  });
}

Shape concatenated_shape(std::span<const Tensor* const> inputs, int axis) {
  Shape shape = inputs[0]->shape();
  shape[axis] = 0;
  for (const Tensor* input : inputs) {
    if (input->dtype() != inputs[0]->dtype()) {
      refuse("cannot concatenate {} and {}", name(inputs[0]->dtype()), name(input->dtype()));
    }
    bool fits = input->rank() == static_cast<int>(shape.size());
    for (int d = 0; fits && d < input->rank(); ++d) fits = d == axis || input->dim(d) == shape[d];
    if (!fits) {
      refuse("cannot concatenate shapes {} and {} along axis {}", to_string(inputs[0]->shape()),
             to_string(input->shape()), axis);
    }
    shape[axis] = checked_add(shape[axis], input->dim(axis));
  }
  return shape;
}

void concatenate(std::span<const Tensor* const> inputs, int axis, Tensor& output, std::span<const int64_t> row_strides) {
  int64_t outer = extent(output.shape(), 0, axis), inner = extent(output.shape(), axis + 1, output.rank());
  int64_t row = output.dim(axis) * inner, begin = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = *inputs[i];
    const int64_t run = input.dim(axis) * inner, length = std::max<int64_t>(output.rank() == 0 ? 1 : input.shape().back(), 1);
    const int64_t stride = row_strides.empty() ? length : row_strides[i];
    void* to = element_at(output, begin);
    begin += run;
    if (to == input.raw()) continue;
    strided_copy(output.dtype(), Shape{outer, run / length, length}, to, Shape{row, length, 1}, input.raw(), Shape{run / length * stride, stride, 1});
  }
}

void copy_slice(const Tensor& input, int axis, int64_t begin, Tensor& output) {
  int64_t outer = extent(input.shape(), 0, axis), inner = extent(input.shape(), axis + 1, input.rank());
  int64_t row = input.dim(axis) * inner, run = output.dim(axis) * inner;
  const void* from = element_at(input, begin * inner);
  if (outer == 1 && from == output.raw()) return;  // planned as a part of the input
  strided_copy(input.dtype(), Shape{outer, run}, output.raw(), Shape{run, 1}, from, Shape{row, 1});
}

}  // namespace anfora::kernels
