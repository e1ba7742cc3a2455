#include "frontend/onnx/implemented.h"

#include <algorithm>
#include <vector>

#include "analysis/range.h"

namespace anfora::onnx {

namespace {

// Operators with kernels for few of their types; rewrites make them of others that have more.
struct Kernels {
  std::vector<std::string_view> ops;
  std::vector<DType> dtypes;  // of the result; those of 16 bits are for what is no CPU
};

const std::vector<Kernels>& narrow_operators() {
  using enum DType;
  static const std::vector<Kernels> kOperators = {
      {{"Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "AveragePool", "Conv", "ConvTranspose", "Cosh", "Elu", "Erf", "Gelu", "GlobalAveragePool",
        "GlobalMaxPool", "HardSigmoid", "HardSwish", "Hardmax", "InstanceNormalization", "LeakyRelu", "Mean", "MeanVarianceNormalization", "Mish",
        "PRelu", "Selu", "Sinh", "Softplus", "Softsign", "Tan", "ThresholdedRelu"},
       {F16, BF16, F32}},
      {{"DepthToSpace", "SpaceToDepth"}, {F16, BF16, F32, F64, I8, U8}},
      {{"EyeLike"}, {F16, BF16, F32, F64, I32, I64, U64}},
      {{"Gemm"}, {F16, BF16, F32, F64}},
      {{"Relu"}, {F16, BF16, F32, F64, I8, I32}},
      {{"Resize"}, {F16, BF16, F32, I8, U8, I32}},
      {{"Trilu"}, {F16, BF16, F32, F64, I32, I64, Bool}},
      {{"Where"}, {F16, BF16, F32, F64, U8, I32, I64, String}},
  };
  return kOperators;
}

// Versions of operators without a kernel, up to kNewestReadOpset. What ONNX defines by parts is run by these as long as the parts are
// those of the model's own operator set; the first in which they are not.
struct Lacking {
  std::string_view op;
  int64_t since, without_parts;
};
constexpr Lacking kLacking[] = {
    {"Bernoulli", 22, 22},        {"GlobalLpPool", 22, 22},  {"ImageDecoder", 20, 20},
    {"MaxRoiPool", 22, 22},       {"Multinomial", 22, 22},   {"RandomNormal", 22, 22},
    {"RandomNormalLike", 22, 22}, {"RandomUniform", 22, 22}, {"RandomUniformLike", 22, 22},
    {"RoiAlign", 22, 22},         {"Swish", 24, 25},
};

// Operators whose kernels are accurate relative to 1, with the argument from which that is as good as relative to the result, in
// single and half, and in double precision.
struct Tail {
  std::string_view op;
  double single, wide;
};
constexpr Tail kTails[] = {{"Sigmoid", -4, -18}, {"Swish", -4, -18}};

}  // namespace

bool has_kernel(std::string_view op_type, int64_t since) {
  return std::ranges::none_of(kLacking, [&](const Lacking& l) { return l.op == op_type && l.since == since; });
}

bool is_implemented(const ir::Apply& node, int64_t opset) {
  const ir::Operator& op = node.op();
  auto lacks = [&](const Lacking& l) {
    return l.op == op.qualified && l.without_parts <= opset && opset <= kNewestReadOpset;
  };
  if (std::ranges::any_of(kLacking, lacks)) return false;
  auto has_op = [&](const Kernels& k) { return std::ranges::find(k.ops, op.qualified) != k.ops.end(); };
  auto kernels = std::ranges::find_if(narrow_operators(), has_op);
  if (kernels == narrow_operators().end()) return true;
  const ir::Type* type = node.type();
  if (!type || !type->is_tensor() || type->dtype() == DType::Undefined) return true;
  return std::ranges::find(kernels->dtypes, type->dtype()) != kernels->dtypes.end();
}

bool is_accurate(const ir::Apply& node) {
  auto tail = std::ranges::find(kTails, node.op().qualified, &Tail::op);
  if (tail == std::end(kTails)) return true;
  const ir::Type* type = node.type();
  const bool is_wide = type && type->is_tensor() && type->dtype() == DType::F64;
  const double factor = static_cast<double>(node.attributes().get_float("alpha", 1));
  const analysis::ValueRange x = analysis::RangeAnalysis().range(node.input(0));
  return std::min(factor * x.low, factor * x.high) >= (is_wide ? tail->wide : tail->single);
}

}  // namespace anfora::onnx
