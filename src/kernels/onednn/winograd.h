// Convolutions by Winograd's minimal filtering: transforms around products by generated code; activations that are no bounds are the library's.
#pragma once

#include <memory>

#include "kernels/generated/product.h"
#include "kernels/prepared.h"

namespace anfora::kernels::onednn {

// Of LoweredConv in f32 with channels last, constant weights and windows of 3×3. Null where another convolution is expected to be faster, unless
// the data names this one. Weights and code that the data has already are taken as they are; without a generator, code must be there.
std::unique_ptr<PreparedKernel> prepare_winograd(KernelData& data, generated::ProductGenerator generate);

}  // namespace anfora::kernels::onednn
