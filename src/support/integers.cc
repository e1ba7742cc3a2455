#include "support/integers.h"

#include <cmath>

#include "support/element_types.h"

namespace anfora {

std::optional<std::vector<int64_t>> integers_of(const Tensor* tensor) {
  auto copy = [](auto data) { return std::vector<int64_t>(data.begin(), data.end()); };
  if (tensor && tensor->dtype() == DType::I64) return copy(tensor->data<int64_t>());
  if (tensor && tensor->dtype() == DType::I32) return copy(tensor->data<int32_t>());
  return std::nullopt;
}

std::optional<int64_t> integer_of(const Tensor* tensor) {
  auto all = tensor && tensor->size() == 1 ? integers_of(tensor) : std::nullopt;
  return all ? std::optional(all->front()) : std::nullopt;
}

bool has_integers(DType dtype, double low, double high) {
  if (is_integer(dtype)) {
    const bool is_signed = is_signed_integer(dtype);
    const double end = std::ldexp(1, element_bits(dtype) - (is_signed ? 1 : 0));
    return low >= (is_signed ? -end : 0) && high < end;
  }
  // Bits of the significand; integers of so many are exact.
  const int digits = dtype == DType::F16    ? 11
                     : dtype == DType::BF16 ? 8
                     : dtype == DType::F32  ? 24
                     : dtype == DType::F64  ? 53
                                            : 0;
  const double most = std::ldexp(1, digits);
  return digits > 0 && low >= -most && high <= most;
}

}  // namespace anfora
