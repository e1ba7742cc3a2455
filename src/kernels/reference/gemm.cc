// Blocked as in Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008), at its simplest:
//
//   c is cut into tiles, one unit of work each; k into panels of kDepth. Of a panel, the tile's rows of a are packed
//   into strips of kStripRows, its columns of b, one strip of 2 vectors after the other, into L1. A micro-kernel keeps
//   the kStripRows x 2 vectors of sums in registers. Strips at an edge are padded with zeros.
//
// A product of one row reads b once, so nothing is packed: rows of b are added to that of c, or columns of b multiplied by the row of a, whatever is contiguous.
#include "kernels/reference/gemm.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/reference/vectorize.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels {
namespace {

constexpr int64_t kStripRows = 6;
constexpr int64_t kDepth = 256;
constexpr int64_t kTileRows = 60, kTileColumns = 256;

template <class T>
constexpr int64_t kLanes = 32 / sizeof(T);
template <class T>
using Lanes = Vector<T, kLanes<T>>;
template <class T>
constexpr int64_t kStripColumns = 2 * kLanes<T>;

// Rows [0, rows) of `from` as strips of kStripRows: element (r, k) of strip s is to[(s * depth + k) * kStripRows + r].
template <class T>
void pack_rows(MatrixView<const T> from, T* to) {
  for (int64_t r0 = 0; r0 < from.rows; r0 += kStripRows) {
    int64_t rows = std::min(kStripRows, from.rows - r0);
    for (int64_t r = 0; r < kStripRows; ++r) {
      const T* row = from.data + (r0 + r) * from.row_stride;
      for (int64_t k = 0; k < from.columns; ++k) to[k * kStripRows + r] = r < rows ? row[k * from.column_stride] : T{0};
    }
    to += from.columns * kStripRows;
  }
}

template <class T>
void pack_columns(MatrixView<const T> from, T* to) {
  constexpr int64_t width = kStripColumns<T>;
  if (from.columns == width && from.column_stride == 1) {
    for (int64_t k = 0; k < from.rows; ++k) std::copy_n(from.data + k * from.row_stride, width, to + k * width);
    return;
  }
  for (int64_t j = 0; j < width; ++j) {
    const T* column = from.data + j * from.column_stride;
    for (int64_t k = 0; k < from.rows; ++k) to[k * width + j] = j < from.columns ? column[k * from.row_stride] : T{0};
  }
}

// sums = the product of a packed strip of rows and one of columns. Inlined, GCC would keep the sums in memory.
template <class T>
[[gnu::noinline]] void multiply_strips(const T* rows, const T* columns, int64_t depth, Lanes<T>* sums) {
  Lanes<T> kept[kStripRows][2]{};
  for (int64_t k = 0; k < depth; ++k) {
    const auto* b = reinterpret_cast<const Lanes<T>*>(columns + k * kStripColumns<T>);
    const Lanes<T> b0 = b[0], b1 = b[1];
    const T* a = rows + k * kStripRows;
#pragma GCC unroll kStripRows
    for (int64_t r = 0; r < kStripRows; ++r) {
      kept[r][0] += a[r] * b0;
      kept[r][1] += a[r] * b1;
    }
  }
#pragma GCC unroll kStripRows
  for (int64_t r = 0; r < kStripRows; ++r) {
    sums[2 * r] = kept[r][0];
    sums[2 * r + 1] = kept[r][1];
  }
}

template <class T>
void store(const Lanes<T> (&sums)[kStripRows][2], MatrixView<T> c, bool accumulate) {
  for (int64_t r = 0; r < c.rows; ++r) {
    const T* from = reinterpret_cast<const T*>(sums[r]);
    T* to = c.data + r * c.row_stride;
    for (int64_t j = 0; j < c.columns; ++j) {
      T& target = to[j * c.column_stride];
      target = accumulate ? target + from[j] : from[j];
    }
  }
}

template <class T>
MatrixView<T> block(MatrixView<T> m, int64_t row, int64_t column, int64_t rows, int64_t columns) {
  return {m.data + row * m.row_stride + column * m.column_stride, std::min(rows, m.rows - row),
          std::min(columns, m.columns - column), m.row_stride, m.column_stride};
}

template <class T>
void multiply_tile(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c, bool accumulate) {
  constexpr int64_t width = kStripColumns<T>;
  alignas(64) T rows[kTileRows * kDepth];
  alignas(64) T columns[kDepth * width];
  for (int64_t k0 = 0; k0 < a.columns; k0 += kDepth) {
    MatrixView<const T> panel = block(a, 0, k0, a.rows, kDepth);
    pack_rows(panel, rows);
    for (int64_t j0 = 0; j0 < c.columns; j0 += width) {
      pack_columns(block(b, k0, j0, kDepth, width), columns);
      for (int64_t i0 = 0; i0 < c.rows; i0 += kStripRows) {
        Lanes<T> sums[kStripRows][2];
        multiply_strips<T>(rows + i0 * panel.columns, columns, panel.columns, &sums[0][0]);
        store<T>(sums, block(c, i0, j0, kStripRows, width), accumulate || k0 > 0);
      }
    }
  }
}

template <class T>
void fill_zero(MatrixView<T> c) {
  for (int64_t i = 0; i < c.rows; ++i) {
    for (int64_t j = 0; j < c.columns; ++j) c.data[i * c.row_stride + j * c.column_stride] = T{0};
  }
}

// Some columns of one row of c, whose elements are neighbours as those of b's rows are.
template <class T>
void add_rows(MatrixView<const T> a, MatrixView<const T> b, T* c, int64_t columns, bool accumulate) {
  if (!accumulate) std::fill_n(c, columns, T{0});
  constexpr int64_t kAtOnce = 4;
  const auto factor = [&](int64_t k) { return a.data[k * a.column_stride]; };
  const auto row = [&](int64_t k) { return b.data + k * b.row_stride; };
  int64_t k = 0;
  for (; k + kAtOnce <= b.rows; k += kAtOnce) {
    const T f0 = factor(k), f1 = factor(k + 1), f2 = factor(k + 2), f3 = factor(k + 3);
    const T *b0 = row(k), *b1 = row(k + 1), *b2 = row(k + 2), *b3 = row(k + 3);
    ANFORA_INDEPENDENT_ITERATIONS
    for (int64_t j = 0; j < columns; ++j) c[j] += (f0 * b0[j] + f1 * b1[j]) + (f2 * b2[j] + f3 * b3[j]);
  }
  for (; k < b.rows; ++k) {
    const T f = factor(k);
    const T* from = row(k);
    ANFORA_INDEPENDENT_ITERATIONS
    for (int64_t j = 0; j < columns; ++j) c[j] += f * from[j];
  }
}

// One row times some columns, of which each is contiguous, and which are so many elements apart. As many streams as that hide what memory takes; the order
// of a sum does not depend on their number.
template <int kColumns, class T>
std::array<T, kColumns> multiply_columns(const T* row, const T* columns, int64_t distance, int64_t count) {
  constexpr int64_t kSums = 2, kStep = kSums * kLanes<T>;
  Lanes<T> sums[kColumns][kSums]{};
  const auto load = [](const T* from) {
    Lanes<T> elements;
    std::memcpy(&elements, from, sizeof(elements));
    return elements;
  };
  int64_t k = 0;
  for (; k + kStep <= count; k += kStep) {
    for (int64_t i = 0; i < kSums; ++i) {
      const Lanes<T> factors = load(row + k + i * kLanes<T>);
      for (int64_t j = 0; j < kColumns; ++j) sums[j][i] += factors * load(columns + j * distance + k + i * kLanes<T>);
    }
  }
  std::array<T, kColumns> results;
  for (size_t j = 0; j < kColumns; ++j) {
    const Lanes<T> folded = sums[j][0] + sums[j][1];
    results[j] = T{0};
    for (int64_t lane = 0; lane < kLanes<T>; ++lane) results[j] += folded[lane];
    for (int64_t i = k; i < count; ++i) results[j] += row[i] * columns[static_cast<int64_t>(j) * distance + i];
  }
  return results;
}

template <class T>
void multiply_row(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c, bool accumulate) {
  constexpr int64_t kTile = 2048;
  const int64_t tiles = (c.columns + kTile - 1) / kTile;
  const bool adds_rows = b.column_stride == 1 && c.column_stride == 1;
  parallel_for(tiles, grain_of(kMultiplyGrain, std::min(c.columns, kTile) * b.rows), [&](int64_t begin, int64_t end) {
    Scratch<T> row(adds_rows ? 0 : static_cast<size_t>(b.rows));
    if (!adds_rows) {
      for (int64_t k = 0; k < b.rows; ++k) row[static_cast<size_t>(k)] = a.data[k * a.column_stride];
    }
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t first = tile * kTile, last = std::min(first + kTile, c.columns);
      if (adds_rows) {
        add_rows(a, block(b, 0, first, b.rows, kTile), c.data + first, last - first, accumulate);
        continue;
      }
      const auto store = [&](int64_t j, T product) {
        T& target = c.data[j * c.column_stride];
        target = accumulate ? target + product : product;
      };
      constexpr int kAtOnce = 4;
      int64_t j = first;
      for (; j + kAtOnce <= last; j += kAtOnce) {
        const auto products = multiply_columns<kAtOnce>(row.data(), b.data + j * b.column_stride, b.column_stride, b.rows);
        for (size_t i = 0; i < kAtOnce; ++i) store(j + static_cast<int64_t>(i), products[i]);
      }
      for (; j < last; ++j) store(j, multiply_columns<1>(row.data(), b.data + j * b.column_stride, b.column_stride, b.rows)[0]);
    }
  });
}

}  // namespace

template <class T>
void multiply(MatrixView<std::type_identity_t<const T>> a, MatrixView<std::type_identity_t<const T>> b, MatrixView<T> c,
              bool accumulate) {
  if (c.rows == 0 || c.columns == 0) return;
  if (a.columns == 0) {
    if (!accumulate) fill_zero(c);
    return;
  }
  if (c.rows == 1 && (b.row_stride == 1 || (b.column_stride == 1 && c.column_stride == 1))) return multiply_row<T>(a, b, c, accumulate);
  int64_t tiles_down = (c.rows + kTileRows - 1) / kTileRows;
  int64_t tiles_across = (c.columns + kTileColumns - 1) / kTileColumns;
  int64_t work = std::min(c.rows, kTileRows) * std::min(c.columns, kTileColumns) * a.columns;
  parallel_for(tiles_down * tiles_across, grain_of(kMultiplyGrain, work), [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) {
      int64_t i = tile / tiles_across * kTileRows, j = tile % tiles_across * kTileColumns;
      multiply_tile<T>(block(a, i, 0, kTileRows, a.columns), block(b, 0, j, b.rows, kTileColumns),
                       block(c, i, j, kTileRows, kTileColumns), accumulate);
    }
  });
}

template void multiply(MatrixView<const float>, MatrixView<const float>, MatrixView<float>, bool);
template void multiply(MatrixView<const double>, MatrixView<const double>, MatrixView<double>, bool);
template void multiply(MatrixView<const uint32_t>, MatrixView<const uint32_t>, MatrixView<uint32_t>, bool);
template void multiply(MatrixView<const uint64_t>, MatrixView<const uint64_t>, MatrixView<uint64_t>, bool);

}  // namespace anfora::kernels
