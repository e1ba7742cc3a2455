#include "anfora/tensor.h"

#include <gtest/gtest.h>

#include <limits>

#include "anfora/error.h"
#include "support/element_types.h"

namespace anfora {
namespace {

TEST(Tensor, CopiesShareBytes) {
  Tensor a = Tensor::from<float>(std::vector<int64_t>{2, 2}, std::vector<float>{1, 2, 3, 4});
  Tensor b = a;
  b.data<float>()[0] = 7;
  EXPECT_EQ(a.data<float>()[0], 7);
  EXPECT_FALSE(a.clone().raw() == a.raw());
}

TEST(Tensor, OverflowingShapeIsAnError) {
  EXPECT_THROW(element_count(std::vector<int64_t>{int64_t{1} << 40, int64_t{1} << 40}), Error);
  EXPECT_EQ(element_count(std::vector<int64_t>{int64_t{1} << 40, int64_t{1} << 40, 0}), 0);
}

TEST(NarrowFloat, EveryPatternSurvivesTheRoundTrip) {
  for (DType dtype : {DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ, DType::F8E8M0}) {
    for (int bits = 0; bits < 256; ++bits) {
      float value = narrow_to_float(dtype, static_cast<uint8_t>(bits));
      if (value != value) continue;
      EXPECT_EQ(float_to_narrow(dtype, value, false), bits) << name(dtype) << " " << bits;
    }
  }
  for (DType dtype : {DType::F4E2M1, DType::F6E2M3, DType::F6E3M2}) {
    for (int bits = 0; bits < 1 << element_bits(dtype); ++bits) {
      EXPECT_EQ(float_to_narrow(dtype, narrow_to_float(dtype, static_cast<uint8_t>(bits)), true), bits) << name(dtype);
    }
  }
}

TEST(NarrowFloat, WhereThereIsNoNaNItsSignMeansNothing) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (DType dtype : {DType::F4E2M1, DType::F6E2M3, DType::F6E3M2}) {
    EXPECT_EQ(float_to_narrow(dtype, nan, true), float_to_narrow(dtype, -nan, true)) << name(dtype);
    EXPECT_EQ(narrow_to_float(dtype, float_to_narrow(dtype, nan, true)), 0) << name(dtype);
  }
}

}  // namespace
}  // namespace anfora
