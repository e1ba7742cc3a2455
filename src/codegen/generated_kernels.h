// The kernels whose code is generated when they are prepared: they are tried before those of libraries.
#pragma once

#include <memory>
#include <string_view>

#include "kernels/prepared.h"

namespace anfora::codegen {

// Of a product, whatever is faster: null where prepare_product() is.
std::unique_ptr<kernels::PreparedKernel> generate_product(kernels::KernelData& data);

// Made once; products where their code is expected to be faster than the library's. A kernel's code is data of it from then on: kernels::generated::generated_kernels() runs it without this layer.
const kernels::PreparedRegistry& generating_kernels();

// Whether the operator is worth making on this processor: that which stands for several others has only generated code, and without multiply-adds
// the library's kernels of those are faster.
bool pays_here(std::string_view op);

}  // namespace anfora::codegen
