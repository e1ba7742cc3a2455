// Narrow floats are stored narrow and computed in float: kernels convert a block at a time through a buffer on the
// stack, so that one float loop serves f16, bf16 and the fp8, fp6 and fp4 kinds at little more than its own cost.
#pragma once

#include <cstdint>

#include "anfora/dtype.h"

namespace anfora::kernels {

// Elements of a block: its buffers stay in the first-level cache, and the conversions' set-up vanishes.
inline constexpr int64_t kFloatBlock = 1024;

// n elements of a float type up to 32 bits, to float.
void load_floats(DType dtype, const void* from, float* to, int64_t n);
// The reverse, to nearest even; the 8-bit and narrower kinds saturate.
void store_floats(DType dtype, const float* from, void* to, int64_t n);

}  // namespace anfora::kernels
