// The transforms of Winograd's minimal filtering F(4×4, 3×3): what is done to the input before the products, a tile at a time, and to
// these afterwards; and what is done to the weights, a panel at a time. Channels lie beside each other, and are worked on in lines; the last
// line may overlap the one before.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

namespace anfora::kernels::onednn {

inline constexpr int64_t kWinogradWindow = 3, kWinogradTile = 4, kWinogradPatch = kWinogradTile + kWinogradWindow - 1;
inline constexpr float kWinogradInner = 0.625f, kWinogradOuter = 1.5f;  // the points ±inner, ±outer; 0 and infinity are the others
inline constexpr int64_t kWinogradLine = 16;                            // channels; there have to be as many

// A tile of the result, and the 36 rows of the products that it is made of.
struct WinogradResult {
  const float* from = nullptr;  // the row of the first matrix; the others' are `distance` elements apart
  int64_t distance = 0, channels = 0;
  const float* bias = nullptr;    // a value a channel, or none
  const float* addend = nullptr;  // at the first point, or none; in rows as y
  float* y = nullptr;             // the first point
  int64_t rows = 0, columns = 0, row_stride = 0;
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();  // what y is clamped to
};

// A panel of W: for each of `depth` channels of the input the 9 weights of `width` channels of the output, a multiple of 8, beside each other.
struct WinogradPanel {
  const float* windows = nullptr;
  int64_t depth = 0, width = 0;
};

// Rows of the 6×6 matrices that are made together.
enum class WinogradRows : uint8_t { ZeroAndInfinity, Inner, Outer };
// The numbers of both.
constexpr std::array<int64_t, 2> numbers_of(WinogradRows rows) {
  if (rows == WinogradRows::ZeroAndInfinity) return {0, kWinogradPatch - 1};
  return rows == WinogradRows::Inner ? std::array<int64_t, 2>{1, 2} : std::array<int64_t, 2>{3, 4};
}

struct WinogradTransforms {
  // Bᵀ d B of a patch of 36 points: a row of each of the matrices, `distance` elements apart.
  void (*spread)(const float* const* points, int64_t channels, float* to, int64_t distance);
  // Aᵀ m A. False where a sum is infinite or NaN.
  bool (*gather)(const WinogradResult& result);
  // Two rows of G g Gᵀ: a panel [depth, width] of each of their 12 matrices, `distance` elements apart.
  void (*weigh)(const WinogradPanel& panel, WinogradRows rows, float* to, int64_t distance);
};

// By the vectors of this processor. All give the same bits.
const WinogradTransforms& winograd_transforms();

}  // namespace anfora::kernels::onednn
