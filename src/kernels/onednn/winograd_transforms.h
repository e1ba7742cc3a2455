// The transforms of Winograd's minimal filtering: what is done to the input before the products, a tile at a time, and to these afterwards; and what
// is done to the weights, a panel at a time. Channels lie beside each other, and are worked on in lines; the last line may overlap the one before.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/generated/winograd_window.h"
#include "kernels/onednn/epilogue.h"

namespace anfora::kernels::onednn {

inline constexpr int64_t kWinogradLine = 16;         // channels; there have to be as many
inline constexpr size_t kMostWinogradMatrices = 36;  // of a form
inline constexpr size_t kMostWinogradTaps = 9;
inline constexpr int64_t kWidestWinogradPanel = 32;

// A tile of the result, and the rows of the products that it is made of.
struct WinogradResult {
  const float* from = nullptr;  // the row of the first matrix; the others' are `distance` elements apart
  int64_t distance = 0, channels = 0;
  const float* bias = nullptr;    // a value a channel, or none
  // The first point; the others are some elements apart.
  template <class T>
  struct Points {
    T* first = nullptr;
    int64_t row_stride = 0, column_stride = 0;
    T* at(int64_t row, int64_t column) const { return first + row * row_stride + column * column_stride; }
  };
  Points<const float> addend;  // or none
  Points<float> y;
  int64_t rows = 0, columns = 0;
  StraightPieces activation;
};

// Some weights of a panel of W: of `depth` channels of the input those of `width` channels of the output, a multiple of 8, beside each other. A tap that the window
// has not is a line of zeros.
struct WinogradPanel {
  struct Tap {
    const float* first = nullptr;
    int64_t step = 0;  // elements from channel to channel
  };
  std::array<Tap, kMostWinogradTaps> taps;
  int64_t depth = 0, width = 0;
};

struct WinogradTransforms {
  // Bᵀ d, or Bᵀ d B, of a patch of points: a row of each of the matrices, `distance` elements apart.
  void (*spread)(const float* const* points, int64_t channels, float* to, int64_t distance);
  // Aᵀ m, or Aᵀ m A. False where a sum is infinite or NaN.
  bool (*gather)(const WinogradResult& result);
  // A group of G g, or of G g Gᵀ: a panel [depth, width] of each of its matrices, `distance` elements apart.
  void (*weigh)(const WinogradPanel& panel, int64_t group, float* to, int64_t distance);
  // The matrices of weights that are made together: `count` of each group, in the order of these numbers.
  int64_t groups, count;
  std::array<uint8_t, kMostWinogradMatrices> numbers;
};

// By the vectors of this processor. All give the same bits.
const WinogradTransforms& winograd_transforms(const generated::WinogradForm& form);

}  // namespace anfora::kernels::onednn
