// Operators of your own: what they are, and how they are computed, apart from each other.
//
//     anfora::register_operator({.name = "my::ScaledAdd",
//                                .signature = "(x: T[...], y: T[...]) -> T[...]",
//                                .attributes = {{"scale", 1.0f}}});
//     anfora::register_kernel("my::ScaledAdd", [](anfora::KernelCall& call) {
//       const anfora::Tensor &x = call.input(0), &y = call.input(1);
//       std::span<float> sum = call.output(0, x.dtype(), x.shape()).data<float>();
//       for (size_t i = 0; i < sum.size(); ++i) sum[i] = x.data<float>()[i] + call.number("scale") * y.data<float>()[i];
//     });
//
// Models that use the operator (here: ScaledAdd of the domain "my") are loaded, typed, optimized and run from then on.
#pragma once

#include <map>
#include <string>

#include "anfora/error.h"
#include "anfora/kernel.h"

namespace [[gnu::visibility("default")]] anfora {

struct OperatorDeclaration {
  std::string name;  // "domain::Name"
  // The types of operands and results: "(x: T[N, K], weights: f32[K, M]) -> (y: T[N, M], i64[])". An element type is one of Anfora's, or a
  // variable, the same wherever it stands. A size is a number, a variable, "?" (only the run tells), of a result also an expression of
  // variables ("2*N+1"); "..." in front is any sizes, the same wherever it stands. The operator is a function of its operands.
  std::string signature;
  std::map<std::string, AttributeDefault> attributes = {};
  std::string doc = {};
};

// Throws InvalidArgument where there is such an operator, and where a part of the declaration is malformed.
void register_operator(const OperatorDeclaration& declaration);

}  // namespace anfora
