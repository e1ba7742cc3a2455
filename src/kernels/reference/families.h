// The families of reference kernels, in `src/kernels/reference/<family>.cc`; each registers what its file holds.
#pragma once

#include "kernels/kernel.h"

namespace anfora::kernels {

#define ANFORA_KERNEL_FAMILIES(X)                                                                                      \
  X(arithmetic)                                                                                                        \
  X(math) X(logic) X(activation) X(cast) X(quantization) X(shape) X(padding) X(indexing) X(scatter) X(ordering)        \
      X(generation) X(random) X(image) X(resize) X(detection) X(sequence) X(control) X(effects) X(text) X(convolution) X(pooling) \
          X(normalization) X(matmul) X(linear_algebra) X(einsum) X(reduction) X(recurrent) X(attention) X(linear_attention) X(lowered)   \
              X(signal) X(loss) X(training) X(search) X(ml_features) X(ml_models) X(ml_trees) X(contrib_ml)

#define ANFORA_DECLARE_FAMILY(family) void register_##family(KernelRegistry& registry);
ANFORA_KERNEL_FAMILIES(ANFORA_DECLARE_FAMILY)
#undef ANFORA_DECLARE_FAMILY

}  // namespace anfora::kernels
