// Random decisions and random tensors, the same ones for the same seed.
#pragma once

#include <cstdint>
#include <random>
#include <span>

#include "anfora/tensor.h"

namespace anfora::rules {

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  size_t below(size_t count) { return static_cast<size_t>(random_() % count); }
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(below(static_cast<size_t>(high - low + 1)));
  }
  bool percent(size_t chance) { return below(100) < chance; }
  template <class Range>
  decltype(auto) of(Range&& range) {
    return range[below(std::size(range))];
  }
  double normal() { return normal_(random_); }
  uint64_t bits() { return random_(); }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
};

enum class Values : uint8_t {
  Normal,   // floats around zero, small integers: what is equal over the reals is equal up to rounding
  Extreme,  // also the smallest and largest integers, which no promise leaves out
  Finite,   // also zeros of both signs, denormals, the largest and smallest numbers
  Special,  // also infinities and NaN
};

// Inclusive; integers only.
struct Bounds {
  int64_t low, high;
};

Tensor random_tensor(DType dtype, std::span<const int64_t> shape, Values values, Draw& draw,
                     const Bounds* bounds = nullptr);

}  // namespace anfora::rules
