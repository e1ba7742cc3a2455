// The kernels that wrap oneDNN's primitives, and what is tried behind them.
#pragma once

#include <span>
#include <string_view>

#include "kernels/prepared.h"

namespace anfora::kernels {

// Made once.
const PreparedRegistry& onednn_kernels();
// All prepared kernels there are, in the order in which they are tried: those whose code was generated already, oneDNN's, then those of
// reference kernels.
std::span<const PreparedRegistry* const> prepared_kernels();

// The instructions that they use on this processor: "avx2". Layouts of weights depend on it.
std::string_view onednn_instructions();

}  // namespace anfora::kernels
