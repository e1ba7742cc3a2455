// What is done to large weights when a model is compiled.
#pragma once

#include <optional>

#include "anfora/tensor.h"

namespace anfora::kernels {

// Whether no element is NaN or infinite; true of what is no float.
bool is_finite(const Tensor& tensor);

// f32(f64(rows[r, …]) · factors[r]) of f32 rows and as many f64 factors: elements that are computed when they are first read. Nothing where
// one of them is not finite. Neither is empty.
std::optional<Tensor> scaled_rows(const Tensor& rows, const Tensor& factors);

}  // namespace anfora::kernels
