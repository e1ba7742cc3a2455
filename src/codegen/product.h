// Generates the code of products (kernels/generated/product_code.h).
#pragma once

#include "codegen/loop_ir.h"
#include "kernels/generated/product_code.h"

namespace anfora::codegen {

using kernels::generated::ProductCode;

// The entry for that many rows, at most the tile's.
Function product_function(const ProductCode& code, int rows);

}  // namespace anfora::codegen
