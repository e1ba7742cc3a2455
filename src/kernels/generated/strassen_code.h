// The code of a product with constant weights by seven products of half the sizes instead of eight, as what generates it and what runs it
// agree on: Strassen's algorithm ("Gaussian elimination is not optimal", 1969) in Winograd's form, which adds least.
//
//     A = ┌ A₁₁ A₁₂ ┐    S₁ = A₂₁ + A₂₂    T₁ = B₁₂ − B₁₁    P₁ = A₁₁ B₁₁    P₅ = S₁ T₁       Y₁₁ = P₁ + P₂
//         └ A₂₁ A₂₂ ┘    S₂ = S₁ − A₁₁     T₃ = B₁₂ − B₂₂    P₂ = A₁₂ B₂₁    P₆ = S₂ T₂       Y₁₂ = P₁ + P₆ + P₅ + P₃
//                        S₃ = A₂₁ − A₁₁    T₂ = B₁₁ − T₃     P₃ = S₄ B₂₂     P₇ = S₃ T₃       Y₂₁ = P₁ + P₆ + P₇ + P₄
//                        S₄ = A₁₂ − S₂     T₄ = B₂₁ − T₂     P₄ = A₂₂ T₄                      Y₂₂ = P₁ + P₆ + P₇ + P₅
//
// B lies in panels as for other products, in pairs: of a panel of B₁₁ and B₂₁, and of the one at the same place of B₁₂ and B₂₂. A panel of T is formed by
// the first tile that multiplies by it, and stays in the cache for the others.
//
// What is added must be of like size, or the small drowns in the rounding of the large (Ballard, Benson, Druinsky, Lipshitz and Schwartz,
// "Improving the numerical stability of fast matrix multiplication", 2016). So operands are balanced by powers of two, which round nothing:
//
//     Y = R · (R⁻¹ A D) (D⁻¹ B C⁻¹) · C
//
//     R   a row of A has its largest element in [1, 2)
//     D   a step of the second half is as large in B as the one of the first half that it is added to, unless it is so within a factor of two or so;
//         where the channels of A have factors of their own, as behind squeeze and excitation, they are multiplied in
//     C   a column likewise
//
// D and C are known with the weights, R is found when A is read. A row or column of zeros has a factor of 0, and so a result of 0.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/generated/product_code.h"

namespace anfora::kernels::generated {

struct StrassenCode {
  Isa isa = Isa::Sse2;
  Tile tile;
  Epilogue epilogue;

  // The products of an entry: by a panel, or by the difference of two.
  ProductCode product(bool forms_weights) const;
  // Halves of the depth are whole vectors.
  int64_t half_depth(int64_t depth) const {
    const int64_t lanes = describe(isa).lanes;
    return (depth + 2 * lanes - 1) / (2 * lanes) * lanes;
  }
  int panel_columns() const { return tile.vectors * describe(isa).lanes; }
};

// The numbers of entries.
struct StrassenEntries {
  int rows;  // of the largest tile
  int product(int rows_of_tile) const { return rows_of_tile; }
  int product_of_difference(int rows_of_tile) const { return rows + rows_of_tile; }
  int magnitudes() const { return 2 * rows + 1; }
  int operands() const { return 2 * rows + 2; }
  int finish() const { return 2 * rows + 3; }
  int count() const { return finish(); }
};

// The operands of the seven products, in that order.
inline constexpr int kStrassenProducts = 7;

// For some rows of A: for each the largest bits of |a · d|, lane by lane.
enum MagnitudeArgument : uint8_t {
  kMagnitudesOf,  // the first row
  kMagnitudeStride,
  kMagnitudeRows,
  kMagnitudeColumns,
  kMagnitudeVectors,  // that hold them
  kMagnitudeSteps,  // D, of whole vectors, and what channels are multiplied by
  kMagnitudes,      // i32[rows, lanes]
  kMagnitudeArguments
};

// A₁₁, A₁₂, S₄, A₂₂, S₁, S₂ and S₃ for some rows of both halves, balanced.
enum StrassenOperandArgument : uint8_t {
  kUpper,  // rows of A, and those half of all rows below
  kLower,
  kRowStride,
  kRowCount,
  kHalfVectors,   // of half the depth
  kSecondColumns,  // that the second half of the depth has
  kStepFactors,   // the same
  kUpperFactors,  // R⁻¹, of each row
  kLowerFactors,
  kOperands,
  kOperandStride,
  kOperandDistance,  // elements from one of the seven to the next
  kStrassenOperandArguments
};

// The quarters of Y for a pair of panels and some rows of both halves: epilogue(Yᵢⱼ · R · C), where Yᵢⱼ are sums of the P.
enum FinishArgument : uint8_t {
  kFirstSums,  // of P₁ to P₇: row by row of a panel
  kLowerRows = kFirstSums + kStrassenProducts,
  kRowsMore,  // behind them, of the upper half alone
  kUpperRowFactors,  // R
  kLowerRowFactors,
  kLeftFactors,  // C
  kRightFactors,
  kFinished,       // the first row of the left panel
  kFinishedStride,
  kToLower,  // rows to the lower half
  kToRight,  // columns to the right panel
  kRightColumns,  // that the right panel has of the result, or fewer than 1
  kFinishedAddend0,
  kFinishedAddend0Stride,
  kFinishedAddend1,
  kFinishedAddend1Stride,
  kFinishArguments
};

}  // namespace anfora::kernels::generated
