// What is decided of a product before it runs: its code, and the weights that it reads, in panels.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "kernels/generated/integer_operands.h"
#include "kernels/generated/product_code.h"
#include "kernels/prepared.h"
#include "kernels/strided_product.h"

namespace anfora::kernels::generated {

// The operators whose operands are integers.
inline constexpr std::string_view kIntegerProduct = "LoweredMatMulInteger", kIntegerConvolution = "LoweredConvInteger";
// That of weights of few bits.
inline constexpr std::string_view kDequantizedProduct = "LoweredMatMulDequantized";
// Inputs behind its addends.
enum DequantizedInput : uint8_t { kScalesOfB = 4, kZerosOfB };
// Inputs behind the addends, of integers.
enum IntegerInput : uint8_t { kZeroOfA = 4, kZeroOfB, kScales, kScaleOfY, kZeroOfY, kResidualBytes, kZeroOfResidual, kFactorOfY, kFactorOfResidual, kZeroOfSum };

// What such an operator does with sums of products, as far as it is known before the run.
struct IntegerOperation {
  DType a = DType::U8, b = DType::I8;
  Scale scale = Scale::None;
  DType result = DType::F32;  // I8, U8: quantized
  bool divides = false;       // by a scale that is not known to be 1
  std::optional<DType> residual;  // I8, U8: of what is added to that; then `result` is the sum's
};
// Nothing where there is no code for the operands, of which zero points and scales are one or one for each column.
std::optional<IntegerOperation> read_integers(const KernelData& data, int64_t columns);
// By the inputs of a run of integers.
Quantization quantization_of(const KernelContext& context);
// Inputs 2 and 3; false where there is no code for them.
bool read_addends(const KernelData& data, int64_t columns, Epilogue& epilogue);

inline constexpr int64_t kLineElements = kCacheLineBytes / int64_t{sizeof(float)};  // f32 of a cache line

// Constants of a kernel's data.
enum PackedNumber : uint8_t { kWeights, kCode, kColumnData, kWeightScales, kWeightZeros };

struct ProductLayout {
  ProductCode code;
  int64_t depth = 0, columns = 0;  // of the weights
  int64_t taps = 1;                // of a window, f32: the weights are [columns, channels, taps…], the sum goes over [taps…, channels]
  IntegerOperands integers;
  bool has_rows_of_y = false;      // those of its matrices are of the last axis of the tensor, which is dense
  int64_t panels() const { return (columns + code.panel_columns() - 1) / code.panel_columns(); }
  int64_t matrix_words() const { return panels() * code.depth * code.panel_columns(); }  // of the weights in panels: words, or elements
  // As numbers, which packed weights and packed code have.
  std::vector<int64_t> of_weights() const;
  std::vector<int64_t> of_code() const;
};

// The distance of rows that code is made for: as they lie in a dense matrix, unless they would drive each other out of the cache.
int64_t row_stride(int64_t depth, const Tile& tile);

// Nothing where no code can be generated for the operands; code that the data has decides for which processor.
std::optional<ProductLayout> lay_out_product(const KernelData& data, const ProductAttributes& attributes);

// The weights as a matrix, whatever the axes of the tensor; empty where there is one for each of a batch. Of integers that are no constant: each of
// the matrices.
std::optional<StridedOperand> weights_matrix(const KernelData& data, const ProductAttributes& attributes);
// Adds them to the data in panels, and what integers need of their columns.
void pack_weights(KernelData& data, const StridedOperand& matrix, const ProductLayout& layout);
// The tensor again, of the panels.
Tensor unpack_weights(const KernelData& data, const StridedOperand& matrix, const ProductLayout& layout);

}  // namespace anfora::kernels::generated
