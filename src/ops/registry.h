// All operators. A family is one file `src/ops/<family>.cc` with one function that declares its operators, or of another domain
// src/dialects/<domain>/<family>.cc.
#pragma once

#include <memory>

#include "ir/context.h"
#include "kernels/kernel.h"
#include "ops/declare.h"

namespace anfora::ops {

#define ANFORA_OPERATOR_FAMILIES(X)                                                                                \
  X(arithmetic)                                                                                                    \
  X(math) X(logic) X(activation) X(cast) X(quantization) X(shape) X(padding) X(indexing) X(scatter) X(ordering)    \
      X(generation) X(random) X(image) X(detection) X(sequence) X(control) X(effects) X(text) X(convolution) X(pooling)       \
          X(normalization) X(matmul) X(linear_algebra) X(einsum) X(reduction) X(recurrent) X(attention) X(lowered) X(signal) X(loss) \
              X(training) X(differentiation) X(search) X(library) \
              X(ml_features) X(ml_models) X(ml_trees) X(microsoft_activations) X(microsoft_attention)                  \
                  X(microsoft_ml) X(microsoft_nchwc) X(microsoft_normalizations) X(microsoft_products)                 \
                      X(microsoft_quantized)

#define ANFORA_DECLARE_FAMILY(family) void declare_##family(Declarations& declare);
ANFORA_OPERATOR_FAMILIES(ANFORA_DECLARE_FAMILY)
#undef ANFORA_DECLARE_FAMILY

// The table of every operator, made once: contexts share it.
const ir::OperatorTable& operators();
// Adds one of a caller's. Throws InvalidArgument when it exists.
void declare(ir::Operator op);
// A context that knows them.
std::unique_ptr<ir::Context> make_context();

// The reference kernel of an operator; null when there is none.
kernels::KernelFunction reference_kernel(const ir::Operator& op);

}  // namespace anfora::ops
