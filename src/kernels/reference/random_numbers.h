// Uniformly distributed numbers for operators that draw.
//
// A seed selects the 32-bit Mersenne Twister, two draws a number, which is NumPy's RandomState(seed): for the same seed,
// the same numbers as in code that was written against it. Without a seed they come from the executable's state.
#pragma once

#include <cstdint>
#include <random>

namespace anfora::kernels {

class UniformNumbers {
 public:
  explicit UniformNumbers(uint32_t seed) : seeded_(seed) {}
  explicit UniformNumbers(std::mt19937_64& shared) : shared_(&shared) {}

  // In [0, 1), a multiple of 2^-53.
  double operator()() {
    if (shared_) return static_cast<double>((*shared_)() >> 11) * 0x1p-53;
    const uint64_t high = seeded_() >> 5, low = seeded_() >> 6;
    return static_cast<double>(high << 26 | low) * 0x1p-53;
  }

 private:
  std::mt19937 seeded_;
  std::mt19937_64* shared_ = nullptr;
};

}  // namespace anfora::kernels
