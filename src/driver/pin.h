// Sizes that are given before a model is optimized: its inputs become static, and everything that depends on their sizes folds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "anfora/tensor.h"
#include "driver/inputs.h"
#include "ir/module.h"

namespace anfora::driver {

struct Pins {
  std::map<std::string, Shape, std::less<>> shapes;  // of inputs, by name
  std::optional<int64_t> batch;                      // the first dimension of every input where it is not fixed

  bool empty() const { return shapes.empty() && !batch; }
};

// Gives the inputs of a typed module these shapes and infers its types anew; a symbol that is bound by one input is bound
// everywhere. Throws InvalidArgument where there is no such input, where a rank or a fixed dimension contradicts, and where two
// shapes contradict each other; TypeMismatch where an operator does not take the sizes.
void pin_shapes(ir::Module& module, const Pins& pins);

// The same for symbolic dimensions of the inputs, by name.
void pin_dims(ir::Module& module, const SizeByName& sizes);

}  // namespace anfora::driver
