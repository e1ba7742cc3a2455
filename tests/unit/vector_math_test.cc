// The elementary functions of float against libm's in double: how many units in the last place they are off, over all
// magnitudes, and what they make of special values.
#include "kernels/reference/vector_math.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace anfora::kernels {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();

// |got - want| in units of the last place of want, as a float; of the smallest subnormal at least.
double units_off(float got, double want) {
  const auto nearest = static_cast<float>(want);
  if (std::isnan(got) && std::isnan(nearest)) return 0;
  if (got == nearest) return 0;
  if (!std::isfinite(got) || !std::isfinite(nearest)) {
    // The largest floats and infinity are neighbours.
    return std::fabs(want) > 3.4028234e38 && std::fabs(got) > 3.4028234e38 && std::signbit(got) == (want < 0)
               ? 1
               : INFINITY;
  }
  const int exponent = std::max(std::ilogb(nearest == 0 ? std::numeric_limits<float>::denorm_min() : nearest), -126);
  return std::fabs(static_cast<double>(got) - want) / std::ldexp(1.0, exponent - 23);
}

void expect_accurate(const char* name, const std::function<float(float)>& function,
                     const std::function<double(double)>& exact, float low, float high, double units) {
  double worst = 0;
  float worst_at = 0;
  auto check = [&](float x) {
    if (!(x >= low && x <= high)) return;
    const double off = units_off(function(x), exact(static_cast<double>(x)));
    if (off > worst) worst = off, worst_at = x;
  };
  // Every magnitude: steps through the bits of a float; then the ordinary range evenly.
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 9973)
    check(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  for (int i = -300000; i <= 300000; ++i) check(static_cast<float>(i) * 3.7e-4f);
  EXPECT_LE(worst, units) << name << " at " << worst_at << ": " << function(worst_at);
}

TEST(VectorMath, UnitsInTheLastPlace) {
  constexpr float kMost = std::numeric_limits<float>::max();
  expect_accurate("exp", [](float x) { return exp(x); }, [](double x) { return std::exp(x); }, -kMost, kMost, 1.1);
  expect_accurate(
      "expm1", [](float x) { return expm1(x); }, [](double x) { return std::expm1(x); }, -kMost, kMost, 2.2);
  expect_accurate("log", [](float x) { return log(x); }, [](double x) { return std::log(x); }, 0, kMost, 1.1);
  expect_accurate("tanh", [](float x) { return tanh(x); }, [](double x) { return std::tanh(x); }, -kMost, kMost, 2.2);
  expect_accurate(
      "sigmoid", [](float x) { return sigmoid(x); }, [](double x) { return 1 / (1 + std::exp(-x)); }, -87, kMost, 2.2);
  expect_accurate(
      "softplus", [](float x) { return softplus(x); },
      [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }, -87, kMost, 2.2);
  expect_accurate("erf", [](float x) { return erf(x); }, [](double x) { return std::erf(x); }, -kMost, kMost, 1.1);
  expect_accurate(
      "sin", [](float x) { return sin(x); }, [](double x) { return std::sin(x); }, -kLargestAngle, kLargestAngle, 1.6);
  expect_accurate(
      "cos", [](float x) { return cos(x); }, [](double x) { return std::cos(x); }, -kLargestAngle, kLargestAngle, 1.6);
  expect_accurate("asin", [](float x) { return asin(x); }, [](double x) { return std::asin(x); }, -1, 1, 1.6);
  expect_accurate("acos", [](float x) { return acos(x); }, [](double x) { return std::acos(x); }, -1, 1, 1.6);
  expect_accurate("atan", [](float x) { return atan(x); }, [](double x) { return std::atan(x); }, -kMost, kMost, 1.8);
}

TEST(VectorMath, SpecialValues) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (auto function :
       {+[](float x) { return exp(x); }, +[](float x) { return expm1(x); }, +[](float x) { return log(x); },
        +[](float x) { return tanh(x); }, +[](float x) { return sigmoid(x); }, +[](float x) { return softplus(x); },
        +[](float x) { return erf(x); }, +[](float x) { return asin(x); }, +[](float x) { return acos(x); },
        +[](float x) { return atan(x); }}) {
    EXPECT_TRUE(std::isnan(function(nan)));
  }
  EXPECT_EQ(exp(kInfinite), kInfinite);
  EXPECT_EQ(exp(-kInfinite), 0);
  EXPECT_EQ(exp(-103.9f), std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(expm1(kInfinite), kInfinite);
  EXPECT_EQ(expm1(-kInfinite), -1);
  EXPECT_EQ(log(kInfinite), kInfinite);
  EXPECT_EQ(log(0.0f), -kInfinite);
  EXPECT_EQ(log(-0.0f), -kInfinite);
  EXPECT_TRUE(std::isnan(log(-1.0f)));
  for (float sign : {-1.0f, 1.0f}) {
    EXPECT_EQ(tanh(sign * kInfinite), sign);
    EXPECT_EQ(erf(sign * kInfinite), sign);
    EXPECT_EQ(std::signbit(tanh(sign * 0.0f)), sign < 0);
    EXPECT_EQ(std::signbit(erf(sign * 0.0f)), sign < 0);
    EXPECT_EQ(std::signbit(expm1(sign * 0.0f)), sign < 0);
    EXPECT_EQ(std::signbit(sin(sign * 0.0f)), sign < 0);
    EXPECT_EQ(std::signbit(asin(sign * 0.0f)), sign < 0);
    EXPECT_EQ(std::signbit(atan(sign * 0.0f)), sign < 0);
    EXPECT_EQ(asin(sign), static_cast<float>(std::asin(static_cast<double>(sign))));
    EXPECT_EQ(acos(sign), static_cast<float>(std::acos(static_cast<double>(sign))));
    EXPECT_EQ(atan(sign * kInfinite), static_cast<float>(std::atan(static_cast<double>(sign * kInfinite))));
    EXPECT_TRUE(std::isnan(asin(sign * 1.0000001f)) && std::isnan(acos(sign * kInfinite)));
  }
  EXPECT_EQ(sigmoid(kInfinite), 1);
  EXPECT_EQ(sigmoid(-kInfinite), 0);
  EXPECT_EQ(softplus(kInfinite), kInfinite);
  EXPECT_EQ(softplus(-kInfinite), 0);
}

}  // namespace
}  // namespace anfora::kernels
