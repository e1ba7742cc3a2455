// The code of a depthwise convolution, and the pointwise one that may be before it, as what generates it and what runs it agree on.
//
//     Y[p, c] = epilogue(Σ_t X[p · stride + t, c] · W[t, c])
//
// of some pixels p of a row, for the channels of a panel: a tile of sums in registers, one vector of weights a tap. W lies as panels
// [panel][tap][channel of the panel]. X are rows of an image of some panels' channels alone, with the padding of columns written out, so that
// all pixels are alike; rows that lie in the padding are left out.
//
// Where the image is itself the result of a pointwise convolution, the expansion, code of a product comes with it (product_code.h).
//
// Images of integers are of 8 bits, their filters words: a weight less its zero point as a half, and another half of zeros. Sums are exact, and go
// through the steps of a product's: z Σ W[t, c] is taken off, for the zero point z of the image.
//
// Every element is computed in the same way in each entry, as in a product.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/generated/product_code.h"

namespace anfora::kernels::generated {

struct DepthwiseCode {
  Isa isa = Isa::Sse2;
  Tile tile;              // pixels × vectors of the largest entry
  bool has_edge = false;  // the last panel has channels that the result has not
  DType image = DType::F32;   // or I8, U8
  Scale scale = Scale::None;  // of integers, which have one
  DType result = DType::F32;  // of integers: I8, U8 as well,
  bool divides = false;       // after a division by a scale
  Epilogue epilogue;
  std::optional<ProductCode> expansion;  // of the same panels; not of integers

  // The numbers that the machine code depends on, isa first.
  std::vector<int64_t> numbers() const;
  bool operator==(const DepthwiseCode&) const = default;
  bool is_integer() const { return image != DType::F32; }
  int panel_channels() const { return tile.vectors * describe(isa).lanes; }
};

struct DepthwiseEntry {
  enum class Kind : uint8_t { Expansion, Depthwise };
  Kind kind = Kind::Depthwise;
  int rows = 0;  // pixels of the tile
  int number() const { return static_cast<int>(kind) * kNumbersOfKind + rows; }
  static DepthwiseEntry of(int number) { return {static_cast<Kind>(number / kNumbersOfKind), number % kNumbersOfKind}; }

 private:
  static constexpr int kNumbersOfKind = 32;
};

// The arguments of a Depthwise entry, in order. Strides count in elements.
enum DepthwiseArgument : uint8_t {
  kImage,           // what the first tap reads for the first pixel
  kImageRowStride,  // from a row of taps to the next
  kTapStride,       // from a tap to the next
  kPixelStride,     // from what a pixel reads to the next
  kTapRows,
  kTaps,     // of a row
  kFilters,  // of the first panel, from the first tap on
  kFilterPanelStride,
  kResult,
  kResultStride,  // from pixel to pixel
  kPanels,        // that lie side by side
  kTiles,         // that follow each other in the row
  kChannels,      // that the result has, from the first panel's first on
  kBias,           // addend 0, as in a product
  kBiasStride,
  kResidual,       // addend 1
  kResidualStride,
  // Of integers only.
  kZeroTerms,  // what the sums of each channel of all panels begin with
  kDepthwiseScale,
  kDepthwiseQuantization,
  kDepthwiseArguments,
  kFloatDepthwiseArguments = kZeroTerms
};

}  // namespace anfora::kernels::generated
