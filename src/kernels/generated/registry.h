// The kernels whose code lies in a file: prepared without a generator.
#pragma once

#include "kernels/prepared.h"

namespace anfora::kernels::generated {

const PreparedRegistry& generated_kernels();

}  // namespace anfora::kernels::generated
