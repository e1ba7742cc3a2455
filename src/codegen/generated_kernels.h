// The kernels whose code is generated when they are prepared: they are tried before those of libraries.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/generated/product.h"
#include "kernels/prepared.h"

namespace anfora::codegen {

// Of a product, whatever is faster: null where prepare_product() is.
std::unique_ptr<kernels::PreparedKernel> generate_product(kernels::KernelData& data);

// Null where there is not as much memory as compiling may take.
kernels::generated::ProductGenerator product_generator();

// Made once; products where their code is expected to be faster than the library's. A kernel's code is data of it from then on: kernels::generated::generated_kernels() runs it without this layer.
const kernels::PreparedRegistry& generating_kernels();

// Compiles the code that these preparations of kernels ask for, several functions at a time: else each kernel would wait for its own. A preparation is only run until
// it asks, and nothing comes of it.
void compile_ahead(std::span<const std::function<void()>> preparations);

// Operators that stand for several others, and that no library has.
bool has_only_generated_code(std::string_view op);

// Whether products read constant weights of that type beside f32.
bool reads_weights(DType dtype);

// Whether an operator that stands for several others is worth making on this processor, by the shape of its weights (−1: not known). Where there
// is only generated code, and no multiply-adds, the library's kernels of the parts are faster; Swish and the like are faster in a group than in
// the library's convolutions.
bool pays_here(std::string_view op, const AttributeSet& attributes, std::span<const int64_t> weights);

}  // namespace anfora::codegen
