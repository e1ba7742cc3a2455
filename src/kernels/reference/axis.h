// A tensor seen around one axis: [outer, length, inner].
#pragma once

#include <span>
#include <string>

#include "anfora/error.h"
#include "anfora/tensor.h"

namespace anfora::kernels {

// An axis in [-rank, rank) as one in [0, rank); throws InvalidArgument otherwise.
inline int normalize_axis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    throw Error(ErrorCode::InvalidArgument,
                "axis " + std::to_string(axis) + " is out of range for rank " + std::to_string(rank));
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

struct AxisView {
  int64_t outer = 1, length = 1, inner = 1;

  AxisView(std::span<const int64_t> shape, int axis) {
    for (int i = 0; i < static_cast<int>(shape.size()); ++i) (i < axis ? outer : i == axis ? length : inner) *= shape[i];
  }
};

}  // namespace anfora::kernels
