// Comparison of results: tolerance by dtype, the worst place named.
#pragma once

#include <optional>
#include <string>

#include "support/datum.h"

namespace anfora::driver {

struct Tolerance {
  double relative = 0, absolute = 0;
};
// f64 and f32 1e-4 relative + 1e-5 absolute, f16 1e-2, bf16 3e-2, narrower floats one step; everything else is exact.
Tolerance tolerance_of(DType dtype);

struct Comparison {
  // Empty when equal within tolerance; else what differs, and where.
  std::string difference;
  double worst = 0;                     // largest absolute difference of two finite elements
  double worst_relative = 0;            // the same as a share of what the tolerance is a share of, where that is not 0
  int64_t differing = 0, elements = 0;  // how many are not within the tolerance, and how many there are
  int64_t lost = 0;                     // how many are no number and ought to be one
};

// What the relative tolerance is a share of.
enum class Scale : uint8_t {
  Element,  // each element by itself: for single operators
  // The largest finite element of the tensor: for whole models. The rounding error of a sum is in proportion to its
  // terms, not to what is left after they cancel (Higham, Accuracy and Stability of Numerical Algorithms, ch. 3).
  Tensor,
};

// |got − want| ≤ absolute + relative·scale for each element; NaN equals NaN, infinities equal themselves. Sequences,
// maps and optionals are compared item by item. An explicit tolerance overrides that of the floating dtypes. With
// `finite_only`, elements that are NaN or infinite in `want` do not count; what is to be a number must be one.
Comparison compare(const Datum& got, const Datum& want, std::optional<Tolerance> tolerance = std::nullopt,
                   Scale scale = Scale::Element, bool finite_only = false);

}  // namespace anfora::driver
