// The types of an operator's results from those of its operands, as a text says (anfora/operator.h):
//
//     (x: T[..., N, K], weights: f32[K, M]) -> (T[..., N, M], i64[])
//
// Inference unifies the operands' types with their terms, which gives each variable its value, and substitutes.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "anfora/tensor.h"
#include "ops/inference.h"

namespace anfora::ops {

struct SignatureTerm {
  std::string name;               // may be empty
  std::string element;            // "f32", or a variable
  bool has_leading = false;       // "..." in front
  std::vector<std::string> dims;  // "N", "3", "?", "2*N+1"
};

struct Signature {
  std::vector<SignatureTerm> inputs, outputs;
};

// Throws InvalidArgument.
Signature parse_signature(std::string_view text);

// ir::Operator::infer of an operator that has a signature.
void infer_signature(InferenceContext& ctx);

// Throws InvalidArgument where tensors that a kernel took and gave are not of the signature's element types and ranks.
void check_results(const Signature& signature, std::span<const Tensor> inputs, std::span<const Tensor> outputs);

}  // namespace anfora::ops
