// is_widening against casts of all values there and back.
#include <gtest/gtest.h>

#include <cstring>

#include "kernels/reference/cast.h"
#include "ops/declare.h"
#include "support/element_types.h"

namespace anfora {
namespace {

// All values of a type of 8 or 16 bits.
Tensor all_values(DType dtype) {
  const int64_t bytes = static_cast<int64_t>(element_bytes(dtype));
  const int64_t count = dtype == DType::Bool ? 2 : int64_t{1} << (8 * bytes);
  Tensor all = Tensor::allocate(dtype, std::span(&count, 1));
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(static_cast<std::byte*>(all.raw()) + i * bytes, &i, static_cast<size_t>(bytes));  // the low bytes
  }
  return all;
}

TEST(Widening, LosesNothing) {
  for (DType from : {DType::Bool, DType::I8, DType::U8, DType::I16, DType::U16}) {
    const Tensor values = all_values(from);
    for (DType to : ops::kNumbers) {
      const Tensor back = kernels::cast_tensor(kernels::cast_tensor(values, to), from);
      const bool is_same = std::memcmp(values.raw(), back.raw(), values.bytes()) == 0;
      EXPECT_TRUE(is_same || !is_widening(from, to)) << name(from) << " in " << name(to);
      EXPECT_TRUE(is_widening(from, to) || !is_float(to) || !is_same) << name(from) << " in " << name(to);
    }
  }
}

TEST(Widening, Table) {
  EXPECT_TRUE(is_widening(DType::I8, DType::F16));
  EXPECT_TRUE(is_widening(DType::U8, DType::BF16));
  EXPECT_TRUE(is_widening(DType::U32, DType::I64));
  EXPECT_TRUE(is_widening(DType::BF16, DType::F32));
  EXPECT_FALSE(is_widening(DType::I32, DType::F32));
  EXPECT_FALSE(is_widening(DType::I8, DType::U16));
  EXPECT_FALSE(is_widening(DType::BF16, DType::F16));
  EXPECT_FALSE(is_widening(DType::F32, DType::String));
}

}  // namespace
}  // namespace anfora
