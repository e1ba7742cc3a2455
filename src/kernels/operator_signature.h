// The types of an operator's operands and results, as a text says (anfora/operator.h):
//
//     (x: T[..., N, K], weights: f32[K, M]) -> (T[..., N, M], i64[])
//
// How types are inferred by it: ops/signature.h.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "anfora/tensor.h"

namespace anfora::kernels {

struct SignatureTerm {
  std::string name;               // may be empty
  std::string element;            // "f32", or a variable
  bool has_leading = false;       // "..." in front
  std::vector<std::string> dims;  // "N", "3", "?", "2*N+1"
};

struct OperatorSignature {
  std::vector<SignatureTerm> inputs, outputs;
};

// Throws InvalidArgument.
OperatorSignature parse_signature(std::string_view text);

// Throws InvalidArgument where tensors that a kernel took and gave are not of the signature's element types and ranks.
void check_results(const OperatorSignature& signature, std::span<const Tensor> inputs, std::span<const Tensor> outputs);

}  // namespace anfora::kernels
