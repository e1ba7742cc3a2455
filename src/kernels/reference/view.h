// Outputs that are an input under another shape.
#pragma once

#include "kernels/kernel.h"

namespace anfora::kernels {

// Output i is `tensor` under `shape`, of as many elements. The bytes are copied only when the plan gave the output
// memory of its own: without planned memory, or with the tensor's, the output shares them.
void forward_or_copy(KernelContext& context, size_t i, const Tensor& tensor, std::span<const int64_t> shape);
inline void forward_or_copy(KernelContext& context, size_t i, const Tensor& tensor) {
  forward_or_copy(context, i, tensor, tensor.shape());
}

}  // namespace anfora::kernels
