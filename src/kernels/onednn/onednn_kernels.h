// The kernels that wrap oneDNN's primitives.
#pragma once

#include <string_view>

#include "kernels/prepared.h"

namespace anfora::kernels {

// Made once.
const PreparedRegistry& onednn_kernels();

// The instructions that they use on this processor: "avx2". Layouts of weights depend on it.
std::string_view onednn_instructions();

}  // namespace anfora::kernels
