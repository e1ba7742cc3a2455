#include "support/integers.h"

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

}  // namespace anfora
