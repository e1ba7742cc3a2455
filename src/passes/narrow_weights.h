// Weights of half precision that kernels of products read as they are.
#pragma once

#include "passes/pass.h"

namespace anfora::passes {

// Whether all that reads a value, of these dimensions and converted from half precision, are products by it for which there is code that reads `narrow`.
bool is_read_narrow(const ir::Node& value, std::span<const int64_t> shape, DType narrow, const PassOptions& options);

}  // namespace anfora::passes
