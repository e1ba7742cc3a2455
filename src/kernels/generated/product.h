// Products with constant weights, pointwise convolutions, and all convolutions of integers, by generated code.
#pragma once

#include <memory>
#include <string_view>

#include "kernels/generated/machine_code.h"
#include "kernels/generated/product_code.h"
#include "kernels/prepared.h"

namespace anfora::kernels::generated {

// Makes the entries for those numbers of rows, or kGatherEntry, in that order.
using ProductGenerator = MachineCode (*)(const ProductCode& code, std::span<const int> rows);

// The operators that there is code for.
inline constexpr std::string_view kProducts[] = {"MatMul", "Gemm", "LoweredMatMul", "LoweredMatMulInteger", "LoweredConvInteger", "LoweredConv", "LoweredPointwise", "LoweredMatMulDequantized"};
// Those for which there is also code with other tiles than the expected one, under names_of_product_tiles().
inline constexpr std::string_view kTiledProducts[] = {"MatMul", "Gemm", "LoweredMatMul"};

// Null where the operator's instance is not a product of f32 or 8-bit integers with constant weights that generated code is made for. Weights and code
// that the data has already are taken as they are; without a generator, code must be there. Throws as ExecutableCode::map().
std::unique_ptr<PreparedKernel> prepare_product(KernelData& data, ProductGenerator generate);

// Whether generated code is expected to be faster than the library's: for few rows, with an activation that it computes faster, for windows of rows, and where
// sizes are not known before the run, so that the library would make a primitive for each. Measured with oneDNN 3.2 by product_bench: with many rows both come
// within a tenth of the peak.
bool prefers_generated_product(const KernelData& data);

}  // namespace anfora::kernels::generated
