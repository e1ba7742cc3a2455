#include "kernels/generated/epilogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "kernels/generated/scalar_forms.h"

namespace anfora::kernels::generated {
namespace {

// By its name, which is the operator's but for one form of Gelu, with what stands for an absent alpha or beta. What it computes is the
// operator's scalar form.
struct NamedActivation {
  const char* name;
  Activation activation;
  float alpha, beta;
};

constexpr NamedActivation kEpilogueActivations[] = {
    {"", Activation::None, 0, 0},
    {"Relu", Activation::Relu, 0, 0},
    {"LeakyRelu", Activation::LeakyRelu, 0.01f, 0},
    {"Elu", Activation::Elu, 1, 0},
    {"Clip", Activation::Clip, std::numeric_limits<float>::lowest(), std::numeric_limits<float>::max()},
    {"Sigmoid", Activation::Sigmoid, 0, 0},
    {"Tanh", Activation::Tanh, 0, 0},
    {"HardSigmoid", Activation::HardSigmoid, 0.2f, 0.5f},
    {"HardSwish", Activation::HardSwish, 1.0f / 6, 0.5f},
    {"Swish", Activation::Swish, 1, 0},
    {"Gelu", Activation::Gelu, 0, 0},
    {"GeluTanh", Activation::GeluTanh, 0, 0},
    {"Abs", Activation::Abs, 0, 0},
    {"Softplus", Activation::Softplus, 0, 0},
};

const NamedActivation& named(Activation activation) {
  return *std::ranges::find(kEpilogueActivations, activation, &NamedActivation::activation);
}

}  // namespace

bool read_activation(const AttributeSet& attributes, Epilogue& epilogue, std::string_view attribute) {
  const std::string name = attributes.get_string(attribute, "");
  const auto* known =
      std::ranges::find_if(kEpilogueActivations, [&](const auto& activation) { return name == activation.name; });
  if (known == std::end(kEpilogueActivations)) return false;
  epilogue.activation = known->activation;
  epilogue.alpha = attributes.get_float(fmt::format("{}_alpha", attribute), known->alpha);
  epilogue.beta = attributes.get_float(fmt::format("{}_beta", attribute), known->beta);
  return true;
}

bool is_costly(Activation activation) {
  return activation == Activation::Sigmoid || activation == Activation::Swish || activation == Activation::Gelu ||
         activation == Activation::GeluTanh;
}

std::string activation_statement(const Epilogue& epilogue) {
  if (epilogue.activation == Activation::None) return "%0";
  const bool by_tanh = epilogue.activation == Activation::GeluTanh;
  const ScalarForm* form = scalar_form(by_tanh ? "Gelu" : named(epilogue.activation).name);
  return substituted(form->expression, [&](std::string_view name) -> std::string {
    if (name == "X" || name == "input") return "%0";
    if (name == "alpha" || name == "min") return fmt::format("({})", epilogue.alpha);
    if (name == "beta" || name == "max") return fmt::format("({})", epilogue.beta);
    return name != "approximate" ? "" : by_tanh ? "'tanh'" : "'none'";
  });
}

std::vector<int64_t> Epilogue::numbers() const {
  auto bits = [](float value) { return static_cast<int64_t>(std::bit_cast<uint32_t>(value)); };
  return {bits(scale),
          static_cast<int64_t>(addends[0]),
          static_cast<int64_t>(addends[1]),
          static_cast<int64_t>(activation),
          bits(alpha),
          bits(beta)};
}

std::string to_string(const Epilogue& epilogue) {
  static constexpr const char* kAddends[] = {"none", "row", "tile"};
  std::string text =
      fmt::format("scale={} addends={},{}", epilogue.scale, kAddends[static_cast<size_t>(epilogue.addends[0])],
                  kAddends[static_cast<size_t>(epilogue.addends[1])]);
  if (epilogue.activation != Activation::None)
    text += fmt::format(" activation={}({}, {})", named(epilogue.activation).name, epilogue.alpha, epilogue.beta);
  return text;
}

}  // namespace anfora::kernels::generated
