// What is done to large weights when a model is compiled.
#pragma once

#include <span>

#include "anfora/tensor.h"

namespace anfora::kernels {

// Whether no element is NaN or infinite; true of what is no float.
bool is_finite(const Tensor& tensor);

// result[r, …] = f32(f64(rows[r, …]) · factors[r]), of contiguous f32.
void scale_rows(const Tensor& rows, std::span<const double> factors, Tensor& result);

}  // namespace anfora::kernels
