// Inputs, outputs and their types as reports show them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ir/module.h"

namespace anfora::driver {

// Name and ir::readable() type of each input and output of main.
using NamedTypes = std::vector<std::pair<std::string, std::string>>;
NamedTypes inputs_of(const ir::Module& module);
NamedTypes outputs_of(const ir::Module& module);

}  // namespace anfora::driver
