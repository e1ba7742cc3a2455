// Conversion of elements between dtypes: ONNX Cast's rules, also for kernels that want their inputs in another type.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"

namespace anfora::kernels {

struct CastOptions {
  enum class ScaleRounding { Up, Down, Nearest };  // for f8e8m0 only; Nearest rounds ties up
  bool saturate = true;                            // for the 8-bit floats only
  ScaleRounding scale_rounding = ScaleRounding::Up;
};

// n elements, on the calling thread. The two may be the same memory when the element sizes are equal.
// Numbers and bool to numbers and bool: floats to integers truncate, integers keep their low bits.
// Throws Unsupported for complex; InvalidArgument for a string that is no number.
void cast_elements(DType from, const void* in, DType to, void* out, int64_t n, const CastOptions& options = {});

// A whole tensor, in parallel; `out` has as many elements.
void cast_into(const Tensor& in, Tensor& out, const CastOptions& options = {});
// The tensor itself when it has that dtype already; else a new one, which with a context lies in its workspace.
Tensor cast_tensor(const Tensor& in, DType to);
Tensor cast_tensor(KernelContext& context, const Tensor& in, DType to);

}  // namespace anfora::kernels
