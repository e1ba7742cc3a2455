#include "kernels/recurrent_layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "anfora/error.h"

namespace anfora::kernels {
namespace {

using Cell = RecurrentLayer::Cell;
using Function = RecurrentLayer::Function;

// The activations in small letters; those of the operator where it names none.
std::vector<std::string> activations_of(const AttributeSet& attributes, std::vector<std::string> usual) {
  std::vector<std::string> names = attributes.get_strings("activations");
  if (names.empty()) return usual;
  for (std::string& name : names) std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return names;
}

// Whether those of each direction are the same ones.
bool are_all(const std::vector<std::string>& names, const std::vector<std::string>& expected) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] != expected[i % expected.size()]) return false;
  }
  return true;
}

std::optional<Function> function_named(const std::string& name) {
  if (name == "tanh") return Function::Tanh;
  if (name == "relu") return Function::Relu;
  if (name == "sigmoid") return Function::Sigmoid;
  return std::nullopt;
}

}  // namespace

std::optional<RecurrentLayer> read_recurrent_layer(const KernelData& data) {
  const AttributeSet& attributes = data.attributes;
  for (size_t i : {kX, kW, kR}) {
    if (data.input(i).dtype != DType::F32 || (i != kX && !data.input(i).constant.defined())) return std::nullopt;
  }
  if (data.input(kBiases).present && !data.input(kBiases).constant.defined()) return std::nullopt;
  if (data.input(kPeepholes).present) return std::nullopt;
  if (attributes.has("clip") || attributes.get_int("layout", 0) != 0 || attributes.get_int("input_forget", 0) != 0) return std::nullopt;
  RecurrentLayer layer{.reverse = attributes.get_string("direction", "forward") == "reverse", .has_lengths = data.input(kLengths).present};
  std::vector<std::string> usual{"sigmoid", "tanh"};
  if (data.op == "RNN") {
    usual = {activations_of(attributes, {"tanh"})[0]};
    const std::optional<Function> activation = function_named(usual[0]);
    if (!activation) return std::nullopt;
    layer.activation = *activation;
  } else if (data.op == "LSTM") {
    layer.cell = Cell::Lstm;
    usual.emplace_back("tanh");
  } else {
    layer.cell = attributes.get_int("linear_before_reset", 0) != 0 ? Cell::ResetAfterGru : Cell::Gru;
  }
  if (!are_all(activations_of(attributes, usual), usual)) return std::nullopt;
  return layer;
}

std::span<const int32_t> read_sequence_lengths(const KernelContext& context, int64_t steps, int64_t batch) {
  const Tensor* tensor = context.optional_input(kLengths);
  if (!tensor) return {};
  if (tensor->dtype() != DType::I32 || tensor->shape() != Shape{batch}) {
    throw Error(ErrorCode::TypeMismatch,
                fmt::format("sequence_lens is {}[{}], expected i32[{}]", name(tensor->dtype()), to_string(tensor->shape()), batch));
  }
  const std::span<const int32_t> lengths = tensor->data<int32_t>();
  for (int32_t length : lengths) {
    if (length < 0 || length > steps) throw Error(ErrorCode::InvalidArgument, fmt::format("a sequence of length {} in {} steps", length, steps));
  }
  return lengths;
}

}  // namespace anfora::kernels
