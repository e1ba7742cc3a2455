#include "frontend/onnx/implemented.h"

#include <algorithm>
#include <vector>

namespace anfora::onnx {

namespace {

// Operators with kernels for few of their types; rewrites make them of others that have more.
struct Kernels {
  std::string_view op;
  std::vector<DType> dtypes;  // of the result; those of 16 bits are for what is no CPU
};

const std::vector<Kernels>& narrow_operators() {
  using enum DType;
  static const std::vector<Kernels> kOperators = {
      {"Relu", {F16, BF16, F32, F64, I8, I32}},
      {"PRelu", {F16, BF16, F32, F64}},
      {"Where", {F16, BF16, F32, F64, U8, I32, I64, String}},
  };
  return kOperators;
}

}  // namespace

bool is_implemented(const ir::Apply& node) {
  auto kernels = std::ranges::find(narrow_operators(), node.op().qualified, &Kernels::op);
  if (kernels == narrow_operators().end()) return true;
  const ir::Type* type = node.type();
  if (!type || !type->is_tensor() || type->dtype() == DType::Undefined) return true;
  return std::ranges::find(kernels->dtypes, type->dtype()) != kernels->dtypes.end();
}

}  // namespace anfora::onnx
