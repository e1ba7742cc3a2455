#include "kernels/reference/weights.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

#include "kernels/reference/vectorize.h"
#include "support/deferred_elements.h"
#include "support/element_types.h"
#include "support/mapped_file.h"
#include "support/parallel.h"
#include "support/passing_elements.h"

namespace anfora::kernels {
namespace {

// Elements at a time: the cache of a core holds them.
constexpr int64_t kScaledAtOnce = 1 << 13;

// Without a way out early, it is done in vectors.
template <class T>
bool are_finite(std::span<const T> elements) {
  using Compute = ComputeType<T>;
  unsigned others = 0;
  for (T x : elements) others |= static_cast<unsigned>(!(std::abs(static_cast<Compute>(x)) <= std::numeric_limits<Compute>::max()));
  return others == 0;
}

class ScaledRows {
 public:
  ScaledRows(Tensor rows, Tensor factors)
      : rows_(std::move(rows)), factors_(std::move(factors)), width_(rows_.size() / rows_.dim(0)), block_(grain_of(kScaledAtOnce, width_)) {}

  void compute(int64_t first, int64_t count, float* place) const {
    for_each_block(first, count, [&](int64_t row, int64_t n) { scale(row, n, place + (row - first) * width_); });
  }
  // Whether no element overflows. None does that is made smaller, so that these rows are not read; of the others, the largest element tells, as
  // rounding is monotonic.
  bool stay_finite() const {
    std::atomic<bool> result = true;
    if (std::ranges::all_of(factors_.data<double>(), shrinks)) return true;
    for_each_block(0, rows_.dim(0), [&](int64_t first, int64_t n) {
      for (int64_t row = first; row < first + n; ++row) {
        if (shrinks(factor(row))) continue;
        const auto product = static_cast<float>(static_cast<double>(largest_magnitude(row)) * factor(row));
        if (!(std::abs(product) <= std::numeric_limits<float>::max())) result = false;
      }
    });
    return result;
  }

 private:
  template <class Body>
  void for_each_block(int64_t first, int64_t count, Body body) const {
    parallel_for(count, block_, [&](int64_t begin, int64_t end) {
      for (int64_t row = first + begin; row < first + end; row += block_) body(row, std::min(block_, first + end - row));
    });
    const auto* read = static_cast<const float*>(rows_.raw()) + first * width_;
    drop_mapped_pages(read, static_cast<size_t>(count * width_) * sizeof(float));
  }
  void scale(int64_t first, int64_t count, float* to) const {
    const float* from = rows_.data<float>().data() + first * width_;
    for (int64_t row = first; row < first + count; ++row, from += width_, to += width_) {
      const double by = factor(row);
      ANFORA_INDEPENDENT_ITERATIONS
      for (int64_t i = 0; i < width_; ++i) to[i] = static_cast<float>(static_cast<double>(from[i]) * by);
    }
  }
  // As bits, whose order is that of magnitudes: infinity is larger than any number, and NaN than infinity.
  float largest_magnitude(int64_t row) const {
    constexpr uint32_t kMagnitude = 0x7fffffff;
    const float* from = rows_.data<float>().data() + row * width_;
    uint32_t largest = 0;
    for (int64_t i = 0; i < width_; ++i) largest = std::max(largest, std::bit_cast<uint32_t>(from[i]) & kMagnitude);
    return std::bit_cast<float>(largest);
  }
  static bool shrinks(double factor) { return std::abs(factor) <= 1; }
  double factor(int64_t row) const { return factors_.data<double>()[static_cast<size_t>(row)]; }

  Tensor rows_, factors_;
  int64_t width_, block_;
};

}  // namespace

bool is_finite(const Tensor& tensor) {
  return !is_float(tensor.dtype()) || dispatch<Floats>(tensor.dtype(), [&]<class T>() {
    const PassingElements elements(tensor);
    return are_finite(std::span(elements.data<T>(), static_cast<size_t>(tensor.size())));
  });
}

std::optional<Tensor> scaled_rows(const Tensor& rows, const Tensor& factors) {
  ScaledRows scaled(rows, factors);
  if (!scaled.stay_finite()) return std::nullopt;
  return DeferredElements::tensor(DType::F32, rows.shape(), [scaled = std::move(scaled)](int64_t first, int64_t count, std::byte* place) {
    scaled.compute(first, count, reinterpret_cast<float*>(place));
  });
}

Tensor moved_elements(const Tensor& weights, StridedView view, std::span<const int64_t> shape) {
  const int64_t rows = shape[0], row = element_count(shape) / std::max<int64_t>(rows, 1);
  return DeferredElements::tensor(weights.dtype(), shape, [=, view = std::move(view)](int64_t first, int64_t count, std::byte* place) {
    view.copy(weights.dtype(), weights.raw(), first * row, count * row, place);
    // A part has elements of everywhere, so that the pages are wanted until the last one.
    if (first + count == rows) drop_mapped_pages(weights.raw(), weights.bytes());
  });
}

}  // namespace anfora::kernels
