// Indices, sizes and axes, which models hold as tensors of i64 or, in places, i32.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "anfora/tensor.h"

namespace anfora {

// All elements, in order; nothing for null and for other dtypes.
std::optional<std::vector<int64_t>> integers_of(const Tensor* tensor);
// The element of a tensor that has one.
std::optional<int64_t> integer_of(const Tensor* tensor);

// Whether all whole numbers between the two are numbers of the type. Of fp8, nothing is said.
bool has_integers(DType dtype, double low, double high);

}  // namespace anfora
