// The code of a product of rows with constant weights, as what generates it and what runs it agree on.
//
//     Y[m, n] = epilogue(Σ_k A[m, k] · B[k, n])         the sums in the order of k, each with one rounding a step (with FMA)
//
// B lies packed in panels: B'[panel][k][lane of the panel], where columns past the last are 0. An entry of the code computes some
// rows (a tile's, or fewer) of a run of panels:
//
//         ┌─ panel ─┐            rows × panel columns of Y are the registers that the loop over k adds to; each step
//       B'│ k ──────│            reads one element of each row of A, and one row of the panel
//         │         │
//     A ┌─┼─────────┤
//       │k│ sums    │ rows
//       └─┴─────────┘
//
// Every element is computed in the same way in each entry: so results do not depend on how work is split among threads.
//
// Weights of few bits, w = (q − z) · s, lie in the panels as signed numbers: of 4 bits by words of eight steps, the first step in the highest bits, or
// of 8 bits. Where one tile has all rows they are dequantized in the loop over k; else some steps of a panel at a time into the cache, for all tiles,
// which then multiply by f32. Either rounds as DequantizeLinear does, so the sums are those of the weights in f32.
//
//     scales, zero points:  [panel][block of k][lane of the panel]
//
// Products of integers of 8 bits are exact. Their operands are words: k counts words of A and B', whose parts are multiplied and added to
// a sum of 32 bits. What an element of A is packed with, a' = a + cᵃ, and of B, b' = b − cᵇ, follows from what the instruction takes;
// with the zero points Zᵃ = zᵃ + cᵃ and Zᵇ = zᵇ − cᵇ
//
//     Σ (a − zᵃ)(b − zᵇ)  =  Σ a'b'  −  Zᵃ Σ b'  −  Zᵇ (Σ a' − K Zᵃ)
//                                       a row       a column
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "anfora/dtype.h"
#include "kernels/generated/epilogue.h"
#include "kernels/generated/gather_code.h"
#include "kernels/generated/isa.h"

namespace anfora::kernels::generated {

inline constexpr std::string_view kConvolution = "LoweredConv";

// The registers that sums are kept in: rows × vectors.
inline constexpr int kMostTileRows = 12;
struct Tile {
  int rows = 1, vectors = 1;
  bool operator==(const Tile&) const = default;
};

// Those of its tiles where there are many rows.
std::vector<int> rows_of_many(const Tile& tile);
// All numbers of rows that tiles may have: from 1 on, or from another one.
std::vector<int> rows_up_to(const Tile& tile, int fewest = 1);

// Rows of equal tiles, but for one: `wide` tiles of rows + 1 come first.
struct Tiling {
  int64_t count_of_line = 0, count = 0, wide = 0;
  int rows = 0;
  int64_t rows_of_line = 0;

  // The same for each of some lines of `total` rows.
  Tiling(int64_t total, const Tile& tile, int64_t lines = 1)
      : count_of_line((total + tile.rows - 1) / tile.rows),
        count(lines * count_of_line),
        wide(total % count_of_line),
        rows(static_cast<int>(total / count_of_line)),
        rows_of_line(total) {}
  struct Place {
    int64_t line = 0, first_row = 0;  // first_row: in the line
    int rows = 0;
  };
  Place place(int64_t i) const {
    const int64_t line = i / count_of_line, number = i - line * count_of_line;
    return {line, number * rows + std::min(number, wide), rows + (number < wide ? 1 : 0)};
  }
  // Of all lines.
  int64_t first_row(int64_t i) const { return row(place(i)); }
  int64_t row(const Place& place) const { return place.line * rows_of_line + place.first_row; }
  int rows_of(int64_t i) const { return place(i).rows; }
  // The one number that tiles have, or both.
  std::vector<int> rows_of_tiles() const {
    if (wide == 0) return {rows};
    return {rows, rows + 1};
  }
};

// What is multiplied in a step: elements, or the parts of a word.
enum class Factors : uint8_t {
  Floats,
  Bytes,   // four: of A without sign, of B with
  Halves,  // two, with sign
};

// What becomes of a sum of integers.
enum class Scale : uint8_t {
  None,     // it is the result
  One,      // times a number, as f32
  Columns,  // times a number for each column
};

struct ProductCode {
  Isa isa = Isa::Sse2;
  Tile tile;          // of the largest entry
  int64_t depth = 0;  // steps: K, or words
  int64_t block =
      0;  // steps over k that are done for some rows and panels before the next: so that these stay in the cache
  int64_t a_stride = 0;   // elements or words from row to row of A
  bool has_packed_rows = false;  // of floats: rows of A lie packed tile by tile, [k][row of the tile]
  bool has_edge = false;  // the last panel has columns that the result has not
  Factors factors = Factors::Floats;
  DType weights = DType::F32;  // of floats: what B' is in memory; F16 and BF16 are converted as they are read, I4 and I8 dequantized
  int64_t scale_block = 0;     // of few bits: steps over k that share a scale
  bool has_zeros = false;      // of few bits: with zero points of 8 bits; else all are 0
  bool has_open_sizes = false;  // of floats: depth and strides are arguments, as of integers
  bool has_fixed_stride = false;  // with open sizes: all but a_stride, so that addresses of rows need no arithmetic
  bool has_half_vectors = false;  // of half as many lanes as registers have
  bool has_windows = false;     // of floats: the sum goes over some lines, each of so many steps, which lie apart in A
  int64_t line_steps = 0;       // of windows: of each line, where it is the same for all images; 0: an argument
  bool keeps_sums = false;      // of floats: those of a tile may be of several runs, as with blocks
  bool has_column_zeros = false;  // of integers: not all Zᵇ are 0
  Scale scale = Scale::None;      // of integers; without one there is no epilogue
  DType result = DType::F32;      // I8, U8: quantized behind the epilogue,
  bool divides = false;           // after a division by a scale
  std::optional<DType> residual;  // of a quantized result: bytes that are added to it, before the sum is quantized
  Epilogue epilogue;
  std::optional<GatherCode> gather;  // of floats: rows of A are gathered, tile by tile
  // Whether an entry fetches weights of the next panel into the second-level cache meanwhile: where several tiles share a panel. The processor's own
  // prefetching starts anew on each page, and in a model weights come from memory.
  bool fetches_ahead = false;
  // Of floats that fetch ahead: the one panel that an entry multiplies by is the difference of two, which is kept for later tiles.
  bool forms_weights = false;

  // The numbers that the machine code depends on, isa and factors first.
  std::vector<int64_t> numbers() const;
  bool is_quantized() const { return result == DType::I8 || result == DType::U8; }
  bool has_half_weights() const { return weights == DType::F16 || weights == DType::BF16; }
  bool has_few_bits() const { return weights == DType::I4 || weights == DType::I8; }
  // Steps that a word of weights holds; 1: each is an element of its own.
  int64_t steps_of_word() const { return weights == DType::I4 ? 8 : 1; }
  int64_t scale_blocks() const { return (depth + scale_block - 1) / scale_block; }
  // Bytes of so many steps of a panel.
  int64_t weight_bytes(int64_t steps) const;
  // The same product by weights that have been dequantized.
  ProductCode dequantized() const;
  bool is_integer() const { return factors != Factors::Floats; }
  // Whether depth and strides are arguments: where many layers have little to do each, and share the code.
  bool takes_sizes() const { return is_integer() || has_open_sizes; }
  bool operator==(const ProductCode&) const = default;
  // What dequantizes in its loop has all rows in one tile, and takes all steps at once.
  bool has_blocks() const { return (block < depth || keeps_sums) && !has_few_bits(); }
  int lanes() const { return describe(isa).lanes / (has_half_vectors ? 2 : 1); }
  int panel_columns() const { return tile.vectors * lanes(); }
  // Panels that an entry for so few rows works on side by side, as sums of one would wait for each other.
  int panels_at_once(int rows) const {
    if (forms_weights) return 1;
    constexpr int kMost = 4, kSumsInFlight = 12, kSumsOfFewBits = 6;  // which take registers and time to dequantize
    const int sums = rows * tile.vectors, wanted = (has_few_bits() ? kSumsOfFewBits : kSumsInFlight) / sums;
    // Beside their vectors of B, which are read once where there is one row, and an element of A.
    const int fit = (describe(isa).registers - 1) / (rows == 1 ? sums : sums + tile.vectors);
    return std::clamp(std::min(wanted, fit), 1, kMost);
  }
};

// Steps over k between two fetches.
inline constexpr int64_t kStepsOfFetch = 16;

// Among the entries, which have the numbers of their rows: the code that gathers rows.
inline constexpr int kGatherEntry = 0;
// The code that dequantizes weights, and below it those of dequantized().
inline constexpr int kDequantizeEntry = -1;
constexpr int entry_of_dequantized(int rows) { return kDequantizeEntry - rows; }
constexpr int rows_of_dequantized(int entry) { return kDequantizeEntry - entry; }

// The arguments of an entry, in order. Strides count in elements.
enum ProductArgument : uint8_t {
  kA,  // the first row
  kB,  // the first panel
  kY,  // the first row at the first panel's column
  kYStride,
  kGroups,   // times panels_at_once() panels,
  kRest,     // then so many
  kColumns,  // that the result has, from the first panel on
  kAddend0,  // as Y; a row: at the first panel's column
  kAddend0Stride,
  kAddend1,  // or the residual
  kAddend1Stride,
  // With blocks: sums of a tile's rows so far, row by row of a panel. They are begun with zeros at the first block, and go through the
  // epilogue after the last.
  kSums,
  kSteps,
  kIsFirst,
  kIsLast,
  // Of integers and few bits only.
  kColumnTerms,  // −Zᵃ Σ b' of the columns of all panels, from the first on: what their sums begin with
  kColumnZeros,  // Zᵇ, likewise; of few bits: zero points, from the first panel on
  kRowTerms,     // Σ a' − K Zᵃ of the rows
  kScale,        // at the first panel's column; of few bits: scales, from the first panel on
  kQuantization,
  kAStride,      // where the code takes sizes
  kPanelStride,  // elements or words of a panel; likewise
  // Of windows only.
  kLines,       // each of kSteps
  kLineStride,  // elements of A from line to line
  kLineSteps,   // steps of the panel from line to line
  // With fetches_ahead: lines of the cache from kAhead on, so many every kStepsOfFetch steps (of windows: of each line).
  kAhead,
  kLinesOfFetch,
  // With forms_weights: what is subtracted from the panel, and where to.
  kSubtrahend,
  kDifference,
  kProductArguments,
  kFetchArguments = kSubtrahend,
  kWindowArguments = kAhead,
  kSizeArguments = kLines,
  kFloatArguments = kColumnTerms
};

// How a result y is quantized: round(clamp(y / scale, lowest, highest)) + zero_point, where the limits are those of the type less the zero point. Code
// that does not divide takes the scale for 1.
struct Quantization {
  struct Limits {
    float lowest = 0, highest = 0;
  };
  float scale = 1;
  Limits limits;
  int32_t zero_point = 0;
  // With a residual r, what is clamped to the limits is y_factor · round(clamp(y / scale, of_y)) + factor · (r − its zero point).
  struct Sum {
    Limits of_y;
    float y_factor = 0, factor = 0;
    int32_t zero_point = 0;
  } sum;
};

// Whether there is code that reads weights of f32, or of a type that it converts to f32; integers with scales.
bool reads_weights(Isa isa, DType dtype);

// Weights of 4 and 8 bits, which have scales.
bool is_of_few_bits(DType dtype);

// Tiles that fill the registers, the one first that is expected to be the fastest as a rule.
std::span<const Tile> product_tiles(Isa isa);
// The one of them that is expected to be the fastest for so many columns, if so many panels are computed together; one of at most so many vectors, and 2 or
// more. `rows`: of a line that tiles do not go on from to the next; 0: there are many.
Tile product_tile(Isa isa, int64_t columns, int64_t panels_at_once = 1, int most_vectors = 4, int64_t rows = 0);
// The tile that an implementation is called after: "generated:product:6x4"; none: the expected one is meant.
std::optional<Tile> tile_named(std::string_view implementation);
// Those names, for all instruction sets.
std::span<const std::string> names_of_product_tiles();
// The steps of a block.
int64_t product_block(int64_t depth);

}  // namespace anfora::kernels::generated
