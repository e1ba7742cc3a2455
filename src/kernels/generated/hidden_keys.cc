#include "kernels/generated/hidden_keys.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace anfora::kernels::generated {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargestScore = 4000;
// How far a bias that hides lies below the largest of its row: 2 · 4000 + 104, and room for rounding, which is below 1 at biases up to
// kLargestBias. A lower bias rounds by less than a millionth of itself.
constexpr float kFar = 8192, kLargestBias = 1e6f;

constexpr size_t kStrands = 16;  // independent sums and maxima, which the compiler keeps in vectors

float sum_of_squares(const float* row, int64_t count) {
  std::array<float, kStrands> sums{};
  int64_t i = 0;
  for (; i + int64_t{kStrands} <= count; i += kStrands) {
    for (size_t lane = 0; lane < kStrands; ++lane) sums[lane] += row[i + static_cast<int64_t>(lane)] * row[i + static_cast<int64_t>(lane)];
  }
  for (; i < count; ++i) sums[0] += row[i] * row[i];
  float sum = 0;
  for (float of_lane : sums) sum += of_lane;
  return sum;
}

// Of all rows; ∞ where one is not finite or too large.
float largest_square(MatrixView<const float> rows) {
  float largest = 0;
  for (int64_t i = 0; i < rows.rows; ++i) {
    const float square = sum_of_squares(rows.data + i * rows.row_stride, rows.columns);
    if (!std::isfinite(square)) return kInfinity;
    largest = std::max(largest, square);
  }
  return largest;
}

float largest_of(const float* biases, int64_t count) {
  std::array<float, kStrands> largest;
  largest.fill(-kInfinity);
  int64_t i = 0;
  for (; i + int64_t{kStrands} <= count; i += kStrands) {
    for (size_t lane = 0; lane < kStrands; ++lane) largest[lane] = std::max(largest[lane], biases[i + static_cast<int64_t>(lane)]);
  }
  for (; i < count; ++i) largest[0] = std::max(largest[0], biases[i]);
  return *std::ranges::max_element(largest);
}

template <class IsHidden>
Bias::Range without_hidden(Bias::Range range, const IsHidden& is_hidden) {
  while (range.first < range.last && is_hidden(range.last - 1)) --range.last;
  while (range.first < range.last && is_hidden(range.first)) ++range.first;
  return range;
}

}  // namespace

bool has_small_scores(MatrixView<const float> queries, MatrixView<const float> keys, MatrixView<const float> values, float scale) {
  const float q = largest_square(queries), k = largest_square(keys);
  return std::abs(scale) * std::sqrt(q) * std::sqrt(k) <= kLargestScore && largest_square(values) < kInfinity;
}

Bias::Range seen_through(const Tensor& mask, int64_t row, Bias::Range range, bool scores_are_small) {
  if (mask.dtype() == DType::Bool) {
    const bool* truths = mask.data<bool>().data() + row;
    return without_hidden(range, [&](int64_t key) { return !truths[key]; });
  }
  const float* biases = mask.data<float>().data() + row;
  float limit = -kInfinity;
  if (scores_are_small) {
    const float largest = largest_of(biases + range.first, range.last - range.first);
    if (std::abs(largest) <= kLargestBias) limit = largest - kFar;
  }
  return without_hidden(range, [&](int64_t key) { return biases[key] <= limit; });
}

}  // namespace anfora::kernels::generated
