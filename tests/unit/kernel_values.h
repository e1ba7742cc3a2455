// Tensors of any type of numbers from plain values, and back, for tests that check kernels against simple loops.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "run_kernel.h"

namespace anfora {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline const std::vector<DType> kFloatTypes = {DType::F32, DType::F64, DType::F16, DType::BF16};

using TestNumbers = Join<Numbers, Join<Float8s, TypeList<bool>>>;

inline Tensor tensor_of(DType dtype, const std::vector<int64_t>& shape, const std::vector<double>& values) {
  Tensor tensor = Tensor::allocate(dtype, shape);
  dispatch<TestNumbers>(dtype, [&]<class T>() {
    auto data = tensor.data<T>();
    for (size_t i = 0; i < data.size(); ++i) {
      if constexpr (std::is_class_v<T>)
        data[i] = T(static_cast<float>(values.at(i)));
      else
        data[i] = static_cast<T>(values.at(i));
    }
  });
  return tensor;
}

inline std::vector<double> doubles(const Tensor& tensor) {
  std::vector<double> values;
  dispatch<TestNumbers>(tensor.dtype(), [&]<class T>() {
    for (T value : tensor.data<T>()) {
      if constexpr (std::is_class_v<T>)
        values.push_back(static_cast<float>(value));
      else
        values.push_back(static_cast<double>(value));
    }
  });
  return values;
}

inline int64_t elements(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t d : shape) count *= d;
  return count;
}

// Values of [low, high) as `dtype` can hold them.
inline Tensor random_tensor(DType dtype, const std::vector<int64_t>& shape, unsigned seed, double low = -2,
                            double high = 2) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  std::vector<double> values(static_cast<size_t>(elements(shape)));
  for (double& value : values) value = uniform(generator);
  return tensor_of(dtype, shape, values);
}

// What one rounding to the type may change, relatively, with some room for the arithmetic before it.
inline double rounding_of(DType dtype) {
  switch (dtype) {
    case DType::F64: return 1e-12;
    case DType::F32: return 2e-6;
    case DType::F16: return 1e-3;
    case DType::BF16: return 8e-3;
    default: return 0;
  }
}

// NaN matches NaN, an infinity itself; anything else is within rounding_of, relative to values around one.
inline void expect_close(const Tensor& got, const std::vector<double>& want, const std::string& what = "") {
  const std::vector<double> values = doubles(got);
  ASSERT_EQ(values.size(), want.size()) << what;
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(values[i])) << what << " at " << i << ": " << values[i];
    } else if (std::isinf(want[i])) {
      EXPECT_EQ(values[i], want[i]) << what << " at " << i;
    } else {
      EXPECT_NEAR(values[i], want[i], rounding_of(got.dtype()) * std::max(1.0, std::fabs(want[i])))
          << what << " at " << i;
    }
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace anfora
