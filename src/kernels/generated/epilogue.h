// What a generated kernel does to its result in registers, before it is stored.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/prepared.h"

namespace anfora::kernels::generated {

// How a tensor that is added lies beside the result: not at all, one row for all rows, or as the result.
enum class Addend : uint8_t { None, Row, Tile };

enum class Activation : uint8_t {
  None,
  Relu,
  LeakyRelu,
  Elu,
  Clip,
  Sigmoid,
  Tanh,
  HardSigmoid,
  HardSwish,
  Swish,
  Gelu,
  GeluTanh,
  Abs,
  Softplus
};

//     activation(scale · x + addends[0] + addends[1])
struct Epilogue {
  float scale = 1;
  std::array<Addend, 2> addends{};
  Activation activation = Activation::None;
  float alpha = 0, beta = 0;  // of the activation

  bool operator==(const Epilogue&) const = default;
  // In numbers, as the layout of packed code has them.
  std::vector<int64_t> numbers() const;
};

// Sets the activation of a lowered operator's attributes `activation`, `activation_alpha` and `activation_beta`, or those of another name; false
// where no code can be generated for it.
bool read_activation(const AttributeSet& attributes, Epilogue& epilogue, std::string_view attribute = "activation");
// Whether it takes some twenty instructions or more. Code for these takes less time than the library's, by more than products differ; measured with
// oneDNN 3.2 on AVX2 and AVX-512.
bool is_costly(Activation activation);

// What the activation computes of %0, a statement of the language of scalar_forms.h.
std::string activation_statement(const Epilogue& epilogue);

std::string to_string(const Epilogue& epilogue);

}  // namespace anfora::kernels::generated
