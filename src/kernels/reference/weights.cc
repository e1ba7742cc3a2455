#include "kernels/reference/weights.h"

#include <cmath>
#include <limits>

#include "kernels/reference/vectorize.h"
#include "support/element_types.h"

namespace anfora::kernels {

bool is_finite(const Tensor& tensor) {
  return !is_float(tensor.dtype()) || dispatch<Floats>(tensor.dtype(), [&]<class T>() {
    using Compute = ComputeType<T>;
    // Without a way out early, it is done in vectors.
    unsigned others = 0;
    for (T x : tensor.data<T>()) others |= static_cast<unsigned>(!(std::abs(static_cast<Compute>(x)) <= std::numeric_limits<Compute>::max()));
    return others == 0;
  });
}

void scale_rows(const Tensor& rows, std::span<const double> factors, Tensor& result) {
  const int64_t count = rows.dim(0), size = count == 0 ? 0 : rows.size() / count;
  const float* from = rows.data<float>().data();
  float* to = result.data<float>().data();
  for (int64_t row = 0; row < count; ++row, from += size, to += size) {
    const double factor = factors[static_cast<size_t>(row)];
    ANFORA_INDEPENDENT_ITERATIONS
    for (int64_t i = 0; i < size; ++i) to[i] = static_cast<float>(static_cast<double>(from[i]) * factor);
  }
}

}  // namespace anfora::kernels
