// Weights of 4 and 8 bits in panels, with their scales and zero points (product_code.h).
#pragma once

#include <array>

#include "kernels/generated/product_layout.h"

namespace anfora::kernels::generated {

// What the inputs say of the code; false where there is no code for them. What is packed already says whether there are zero points.
bool read_few_bits(const KernelData& data, const StridedOperand& matrix, ProductCode& code);
// Into kWeights, kWeightScales and kWeightZeros.
void pack_few_bits(KernelData& data, const StridedOperand& matrix, const ProductLayout& layout);
// Back: the inputs 1, kScalesOfB and kZerosOfB, the last undefined where it is absent.
std::array<Tensor, 3> unpack_few_bits(const KernelData& data, const StridedOperand& matrix, const ProductLayout& layout);

}  // namespace anfora::kernels::generated
