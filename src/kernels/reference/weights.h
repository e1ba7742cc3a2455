// What is done to large weights when a model is compiled.
#pragma once

#include <optional>

#include "anfora/tensor.h"
#include "kernels/reference/strided_view.h"

namespace anfora::kernels {

// Whether no element is NaN or infinite; true of what is no float.
bool is_finite(const Tensor& tensor);

// f32(f64(rows[r, …]) · factors[r]) of f32 rows and as many f64 factors: elements that are computed when they are first read. Nothing where
// a factor is NaN, or an element of a row with a factor above 1 is not finite then: rows that shrink are not looked at. Neither is empty.
std::optional<Tensor> scaled_rows(const Tensor& rows, const Tensor& factors);

// The elements of `weights` by the order of a view of them, under a shape of rank 1 or more with as many: moved when they are read.
Tensor moved_elements(const Tensor& weights, StridedView view, std::span<const int64_t> shape);

}  // namespace anfora::kernels
