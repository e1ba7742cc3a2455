// Generates the code of products (kernels/generated/product_code.h).
#pragma once

#include "codegen/loop_ir.h"
#include "kernels/generated/product_code.h"

namespace anfora::codegen {

using kernels::generated::ProductCode;

// The entry for that many rows, at most the tile's.
Function product_function(const ProductCode& code, int rows);
// Of weights of few bits: `kSteps` words of a panel at `kB` become f32 at `kY`, all by the scales and zero points at `kScale` and `kColumnZeros`.
Function dequantizing_function(const ProductCode& code);

}  // namespace anfora::codegen
