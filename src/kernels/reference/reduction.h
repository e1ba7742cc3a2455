// Reductions for other kernels.
#pragma once

#include <vector>

#include "anfora/tensor.h"

namespace anfora::kernels {

enum class Reduction : uint8_t { Sum, Mean, Product, Max, Min, L1, L2, SumSquare, LogSum };

// By axis.
using AxisFlags = std::span<const bool>;

// `in` reduced along the axes that are marked, which stay as dimensions of size 1.
Tensor reduce_tensor(const Tensor& in, AxisFlags axes, Reduction kind);

}  // namespace anfora::kernels
