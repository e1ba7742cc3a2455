// The families of oneDNN kernels, one file each.
#pragma once

#include <functional>
#include <memory>

#include "kernels/prepared.h"

namespace anfora::kernels::onednn {

#define ANFORA_ONEDNN_FAMILIES(X) X(batch_normalization) X(winograd) X(depthwise_transposed) X(convolution) X(convolution_gradient) X(matmul) X(pooling) X(recurrent)

#define ANFORA_DECLARE_FAMILY(family) void register_##family(PreparedRegistry& registry);
ANFORA_ONEDNN_FAMILIES(ANFORA_DECLARE_FAMILY)
#undef ANFORA_DECLARE_FAMILY

// Conv and LoweredConv by the library's primitives. `weights` computes the constant W, whose elements may be released.
class ShapedKernel;
std::unique_ptr<ShapedKernel> direct_convolution(KernelData& data, std::function<Tensor()> weights);

}  // namespace anfora::kernels::onednn
