// What is known of the numbers in a tensor: bounds, and whether a NaN may be among them. Bools are 0 and 1.
#pragma once

#include <limits>

namespace anfora::ir {

struct ValueRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool may_be_nan = true;
  bool rounds_to_zero = false;  // a 0 among them is a positive number that was too small

  // Whether the real numbers are above 0.
  bool is_positive() const { return low > 0 || rounds_to_zero; }
  bool is_finite() const {
    return !may_be_nan && low > -std::numeric_limits<double>::infinity() &&
           high < std::numeric_limits<double>::infinity();
  }
  friend bool operator==(const ValueRange&, const ValueRange&) = default;
};

}  // namespace anfora::ir
