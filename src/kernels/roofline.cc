#include "kernels/roofline.h"

#include <algorithm>

namespace anfora::kernels {

double Roofline::bytes_per_second(double bytes) const {
  auto larger = std::ranges::upper_bound(readings, bytes, {}, &Reading::bytes);
  return larger == readings.begin() ? larger->bytes_per_second : std::prev(larger)->bytes_per_second;
}

double Roofline::least_seconds(double flops, double bytes) const {
  return std::max(flops / flops_per_second, bytes / bytes_per_second(bytes));
}

}  // namespace anfora::kernels
