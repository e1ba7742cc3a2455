// The kernels that wrap oneDNN's primitives.
#pragma once

#include "kernels/prepared.h"

namespace anfora::kernels {

// Made once.
const PreparedRegistry& onednn_kernels();

}  // namespace anfora::kernels
