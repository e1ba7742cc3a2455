#include "support/repetition.h"

#include <cstring>

namespace anfora {

std::optional<Tensor> without_repetition(const Tensor& t) {
  if (t.size() <= 1 || t.dtype() == DType::String) return std::nullopt;
  Tensor small = t;
  for (int axis = t.rank(); axis-- > 0;) {
    const int64_t extent = small.dim(axis);
    if (extent == 1) continue;
    const int64_t inner = element_count(std::span<const int64_t>(small.shape()).subspan(static_cast<size_t>(axis) + 1));
    const size_t slice = static_cast<size_t>(inner) * element_bytes(t.dtype());
    const int64_t outer = small.size() / (extent * inner);
    auto bytes = [&](int64_t o, int64_t i) {
      return static_cast<const std::byte*>(small.raw()) + static_cast<size_t>(o * extent + i) * slice;
    };
    bool repeats = true;
    for (int64_t o = 0; o < outer && repeats; ++o) {
      for (int64_t i = 1; i < extent && repeats; ++i) repeats = std::memcmp(bytes(o, 0), bytes(o, i), slice) == 0;
    }
    if (!repeats) continue;
    Shape shape = small.shape();
    shape[static_cast<size_t>(axis)] = 1;
    Tensor part = Tensor::allocate(t.dtype(), shape);
    for (int64_t o = 0; o < outer; ++o) {
      std::memcpy(static_cast<std::byte*>(part.raw()) + static_cast<size_t>(o) * slice, bytes(o, 0), slice);
    }
    small = std::move(part);
  }
  return small.size() < t.size() ? std::optional(small) : std::nullopt;
}

}  // namespace anfora
