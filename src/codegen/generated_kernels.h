// The kernels whose code is generated when they are prepared: they are tried before those of libraries.
#pragma once

#include "kernels/prepared.h"

namespace anfora::codegen {

// Made once. A kernel's code is data of it from then on: kernels::generated::generated_kernels() runs it without this layer.
const kernels::PreparedRegistry& generating_kernels();

}  // namespace anfora::codegen
