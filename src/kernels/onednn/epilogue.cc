#include "kernels/onednn/epilogue.h"

#include <algorithm>
#include <string_view>

namespace anfora::kernels::onednn {
namespace {

using dnnl::algorithm;

// An activation's algorithm, and what stands for an absent alpha or beta.
struct Activation {
  const char* name;
  algorithm kind;
  float alpha, beta;
};

const Activation kActivations[] = {
    {"Relu", algorithm::eltwise_relu, 0, 0},
    {"LeakyRelu", algorithm::eltwise_relu, 0.01f, 0},
    {"Elu", algorithm::eltwise_elu, 1, 0},
    {"Clip", algorithm::eltwise_clip, std::numeric_limits<float>::lowest(), std::numeric_limits<float>::max()},
    {"Sigmoid", algorithm::eltwise_logistic, 0, 0},
    {"Tanh", algorithm::eltwise_tanh, 0, 0},
    {"HardSigmoid", algorithm::eltwise_hardsigmoid, 0.2f, 0.5f},
    {"HardSwish", algorithm::eltwise_hardswish, 1.0f / 6, 0.5f},
    {"Swish", algorithm::eltwise_swish, 1, 0},
    {"Gelu", algorithm::eltwise_gelu_erf, 0, 0},
    {"GeluTanh", algorithm::eltwise_gelu_tanh, 0, 0},
    {"Softplus", algorithm::eltwise_soft_relu, 1, 0},
    {"Mish", algorithm::eltwise_mish, 0, 0},
    {"Abs", algorithm::eltwise_abs, 0, 0},
};

const Activation* find_activation(std::string_view name) {
  const Activation* known = std::ranges::find_if(kActivations, [&](const Activation& a) { return name == a.name; });
  return known == std::end(kActivations) ? nullptr : known;
}

}  // namespace

bool append_activation(dnnl::post_ops& ops, const AttributeSet& attributes) {
  std::string name = attributes.get_string("activation", "");
  if (name.empty()) return true;
  const Activation* known = find_activation(name);
  if (!known) return false;
  ops.append_eltwise(known->kind, attributes.get_float("activation_alpha", known->alpha),
                     attributes.get_float("activation_beta", known->beta));
  return true;
}

std::optional<StraightPieces> straight_pieces(const AttributeSet& attributes) {
  const std::string name = attributes.get_string("activation", "");
  const StraightPieces none;
  if (name.empty()) return none;
  if (name == "Relu") return StraightPieces{.low = 0};
  if (name == "LeakyRelu") return StraightPieces{.slope = attributes.get_float("activation_alpha", find_activation(name)->alpha)};
  if (name != "Clip") return std::nullopt;
  return StraightPieces{.low = attributes.get_float("activation_alpha", none.low), .high = attributes.get_float("activation_beta", none.high)};
}

}  // namespace anfora::kernels::onednn
