// Reductions for other kernels.
#pragma once

#include <vector>

#include "kernels/kernel.h"

namespace anfora::kernels {

enum class Reduction : uint8_t { Sum, Mean, Product, Max, Min, L1, L2, SumSquare, LogSum };

// By axis.
using AxisFlags = std::span<const bool>;

// `in` reduced along the axes that are marked, which stay as dimensions of size 1; in the workspace.
Tensor reduce_tensor(KernelContext& context, const Tensor& in, AxisFlags axes, Reduction kind);

}  // namespace anfora::kernels
