// Weights of half precision, or of 4 and 8 bits with scales, that kernels of products read as they are.
#pragma once

#include "passes/pass.h"

namespace anfora::passes {

// Whether all that reads a value, of these dimensions and converted or dequantized from `narrow`, are products by it for which there is code that reads `narrow`.
bool is_read_narrow(const ir::Node& value, std::span<const int64_t> shape, DType narrow, const PassOptions& options);

}  // namespace anfora::passes
