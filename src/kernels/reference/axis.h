// A tensor seen around one axis: [outer, length, inner].
#pragma once

#include <span>

#include "anfora/tensor.h"

namespace anfora::kernels {

struct AxisView {
  int64_t outer = 1, length = 1, inner = 1;

  AxisView(std::span<const int64_t> shape, int axis) {
    for (int i = 0; i < static_cast<int>(shape.size()); ++i)
      (i < axis ? outer : i == axis ? length : inner) *= shape[i];
  }
};

}  // namespace anfora::kernels
