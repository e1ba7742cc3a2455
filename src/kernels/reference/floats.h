// Whole tensors to and from f32, for kernels whose work is not worth an instantiation for each dtype.
#pragma once

#include <span>

#include "anfora/tensor.h"

namespace anfora::kernels {

// The tensor itself if it is f32, else a copy; any dtype of numbers.
Tensor to_floats(const Tensor& tensor);
// Elements of `output`, a floating point tensor, from as many floats.
void from_floats(std::span<const float> values, Tensor& output);

}  // namespace anfora::kernels
