// Values of attributes.
#include <algorithm>

#include "rules/operand_tables.h"
#include "support/element_types.h"

namespace anfora::rules {
namespace {

using Texts = std::vector<const char*>;

AttributeValue flag(const Application& a) { return a.draw.between(0, 1); }
AttributeValue permutation(const Application& a) { return shuffled(a.draw, a.result.size()); }
AttributeValue axis(const Application& a) {
  bool inserted = a.op.name.starts_with("Arg") || a.op.name == "Flatten";
  int rank = a.rank() + (inserted ? 1 : 0);
  return rank == 0 ? int64_t{0} : maybe_negative(a.draw, a.draw.between(0, rank - 1), rank);
}
AttributeValue axes(const Application& a) { return random_subset(a.draw, a.rank(), 50); }
AttributeValue element_type(const Application& a) { return static_cast<int64_t>(a.dtype); }
AttributeValue group(const Application& a) {
  return a.rank() < 2 ? int64_t{1} : a.draw.percent(40) ? int64_t{1} : a.draw.of(divisors(a.result[1]));
}
AttributeValue spatial(const Application& a, int64_t most) {
  Ints list;
  for (int i = 2; i < a.rank(); ++i) list.push_back(a.draw.between(1, most));
  return list;
}
AttributeValue kernel(const Application& a) { return spatial(a, 3); }
AttributeValue stride(const Application& a) { return spatial(a, 2); }
AttributeValue pads(const Application& a) {
  Ints list;
  for (int i = 2; i < a.rank(); ++i) list.insert(list.end(), {a.draw.between(0, 1), a.draw.between(0, 1)});
  return list;
}
AttributeValue factor(const Application& a) {
  return a.draw.of(std::vector<float>{0.5f, 1.0f, 2.0f, 0.25f, -1.0f, 1.702f});
}
AttributeValue epsilon(const Application& a) { return a.draw.of(std::vector<float>{1e-5f, 1e-6f, 1e-3f, 1e-12f}); }
AttributeValue small(const Application& a) { return a.draw.between(1, 3); }
AttributeValue bit_shift(const Application& a) { return std::string(a.draw.percent(50) ? "LEFT" : "RIGHT"); }
AttributeValue approximation(const Application& a) { return std::string(a.draw.percent(50) ? "none" : "tanh"); }
AttributeValue pad_mode(const Application& a) {
  return std::string(a.draw.of(std::vector<const char*>{"constant", "constant", "reflect", "edge", "wrap"}));
}
AttributeValue block_order(const Application& a) { return std::string(a.draw.percent(50) ? "DCR" : "CRD"); }
AttributeValue automatic(const Application& a) {
  return std::string(
      a.draw.of(std::vector<const char*>{"NOTSET", "NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"}));
}
AttributeValue one_element(const Application& a) {
  static constexpr int64_t kOne[] = {1};
  return random_tensor(a.dtype, kOne, Values::Normal, a.draw);
}
AttributeValue equation(const Application& a) {
  static const std::vector<const char*> kUnary = {"ij->ji", "ij->ij", "ijk->ikj", "ij->i", "ii->i"};
  static const std::vector<const char*> kBinary = {"ij,jk->ik",       "ij,kj->ik", "bij,bjk->bik",   "bhid,bhjd->bhij",
                                                   "bhij,bhjd->bhid", "ij,ij->ij", "i,j->ij",        "bij,jk->bik",
                                                   "bsh,hd->bsd",     "ji,jk->ik", "bthd,bshd->bhts"};
  return std::string(a.draw.of(a.operands.size() == 1 ? kUnary : kBinary));
}

AttributeValue of(const Application& a, const Texts& texts) { return std::string(a.draw.of(texts)); }
AttributeValue small_odd(const Application& a) { return 2 * a.draw.between(0, 2) + 1; }
AttributeValue one_or_two(const Application& a) { return a.draw.between(1, 2); }
AttributeValue diagonal(const Application& a) { return a.draw.between(-2, 2); }
AttributeValue some_axis(const Application& a) {
  return a.rank() == 0 ? int64_t{0} : a.draw.between(-a.rank(), a.rank() - 1);
}
AttributeValue scatter_mode(const Application& a) { return of(a, {"none", "none", "add", "mul", "max", "min"}); }
AttributeValue loss_mode(const Application& a) { return of(a, {"mean", "sum", "none"}); }
AttributeValue direction(const Application& a) { return of(a, {"forward", "reverse", "bidirectional"}); }
template <const char*... Usual>
AttributeValue activations(const Application& a) {
  std::vector<std::string> once{Usual...};
  if (a.draw.percent(20)) once.back() = "Relu";
  std::vector<std::string> all = once;
  if (get_text(a, "direction") == "bidirectional") all.insert(all.end(), once.begin(), once.end());
  return all;
}
constexpr char kSigmoid[] = "Sigmoid", kTanh[] = "Tanh";
AttributeValue resize_mode(const Application& a) { return of(a, {"nearest", "linear", "cubic"}); }
AttributeValue sample_mode(const Application& a) { return of(a, {"linear", "nearest", "cubic"}); }
AttributeValue nearest_mode(const Application& a) {
  return of(a, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
}
AttributeValue coordinates(const Application& a) {
  return of(a, {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"});
}
AttributeValue padding_mode(const Application& a) { return of(a, {"zeros", "border", "reflection"}); }
AttributeValue region_mode(const Application& a) { return of(a, {"avg", "max"}); }
AttributeValue activation(const Application& a) { return of(a, {"none", "silu"}); }
AttributeValue pattern(const Application& a) { return of(a, {"a.*", ".*1.*", "", "b|anfora"}); }
AttributeValue window_type(const Application& a) { return static_cast<int64_t>(a.dtype); }

struct AttributeEntry {
  std::string_view op;  // empty: of any operator that has no entry of its own for the name
  std::string_view name;
  AttributeValue (*choose)(const Application&);
};
constexpr AttributeEntry kAttributes[] = {
    {"BitShift", "direction", bit_shift},
    {"CausalConvWithState", "activation", activation},
    {"Compress", "axis", some_axis},
    {"ConstantOfShape", "value", one_element},
    {"DepthToSpace", "mode", block_order},
    {"EyeLike", "k", diagonal},
    {"Flatten", "axis", axis},
    {"GridSample", "mode", sample_mode},
    {"GridSample", "padding_mode", padding_mode},
    {"LRN", "size", small_odd},
    {"LpNormalization", "p", one_or_two},
    {"NegativeLogLikelihoodLoss", "reduction", loss_mode},
    {"Pad", "mode", pad_mode},
    {"RegexFullMatch", "pattern", pattern},
    {"Resize", "coordinate_transformation_mode", coordinates},
    {"Resize", "mode", resize_mode},
    {"Resize", "nearest_mode", nearest_mode},
    {"RoiAlign", "mode", region_mode},
    {"ScatterElements", "reduction", scatter_mode},
    {"ScatterND", "reduction", scatter_mode},
    {"SoftmaxCrossEntropyLoss", "reduction", loss_mode},
    {"Unique", "axis", some_axis},
    {"", "align_corners", flag},
    {"", "allowzero", flag},
    {"", "alpha", factor},
    {"", "antialias", flag},
    {"", "approximate", approximation},
    {"", "auto_pad", automatic},
    {"", "axes", axes},
    {"", "axis", axis},
    {"", "beta", factor},
    {"", "bias", factor},
    {"", "blocksize", small},
    {"", "ceil_mode", flag},
    {"", "count_include_pad", flag},
    {"", "detect_negative", flag},
    {"", "detect_positive", flag},
    {"", "dilations", stride},
    {"", "direction", direction},
    {"GRU", "activations", activations<kSigmoid, kTanh>},
    {"LSTM", "activations", activations<kSigmoid, kTanh, kTanh>},
    {"RNN", "activations", activations<kTanh>},
    {"", "dtype", element_type},
    {"", "epsilon", epsilon},
    {"", "equation", equation},
    {"", "exclusive", flag},
    {"", "fmod", flag},
    {"", "gamma", factor},
    {"", "group", group},
    {"", "input_forget", flag},
    {"", "interleaved", flag},
    {"", "inverse", flag},
    {"", "is_causal", flag},
    {"", "keepdims", flag},
    {"", "kernel_shape", kernel},
    {"", "lambd", factor},
    {"", "largest", flag},
    {"", "layout", flag},
    {"", "linear_before_reset", flag},
    {"", "noop_with_empty_axes", flag},
    {"", "num_groups", group},
    {"", "num_outputs", small},
    {"", "onesided", flag},
    {"", "output_datatype", window_type},
    {"", "output_dtype", element_type},
    {"", "p", small},
    {"", "pads", pads},
    {"", "periodic", flag},
    {"", "perm", permutation},
    {"", "reverse", flag},
    {"", "saturate", flag},
    {"", "select_last_index", flag},
    {"", "sorted", flag},
    {"", "start", flag},
    {"", "strides", stride},
    {"", "to", element_type},
    {"", "transA", flag},
    {"", "transB", flag},
    {"", "upper", flag},
};

}  // namespace

std::optional<AttributeValue> choose_attribute(const Application& a, const ir::AttributeDeclaration& declaration) {
  for (const AttributeEntry& entry : kAttributes) {  // those of one operator first
    if (entry.name == declaration.name && (entry.op.empty() || entry.op == a.op.qualified)) return entry.choose(a);
  }
  return declaration.otherwise;
}

}  // namespace anfora::rules
