#include <algorithm>

#include "kernels/onednn/primitive.h"
#include "prepare_kernel.h"

namespace anfora {
namespace {

using dnnl::memory;
using kernels::onednn::PackedLayouts;

constexpr memory::data_type kFloat = memory::data_type::f32;
const memory::dims kDims{32, 16, 3, 3};
const memory::desc kPlain(kDims, kFloat, memory::format_tag::oihw);
const memory::desc kBlocked(kDims, kFloat, memory::format_tag::OIhw8i8o);
const memory::desc kOtherBlocked(kDims, kFloat, memory::format_tag::OIhw16i16o);

// How many threads there are decides which layout a primitive wants.
TEST(PackedLayouts, ServeAnotherLayoutThanTheStoredOne) {
  const Tensor weights = random_tensor(kDims, 1);
  kernels::KernelData data;
  PackedLayouts(data, 1).get(weights, kPlain, kBlocked);
  const Tensor released = Tensor::view(DType::F32, weights.shape(), nullptr, nullptr);
  const memory object = PackedLayouts(data, 1).get(released, kPlain, kOtherBlocked);
  EXPECT_EQ(object.get_desc(), kOtherBlocked);
  const auto* elements = static_cast<const float*>(object.get_data_handle());
  const std::span<const float> expected = weights.data<float>();
  for (int64_t o = 0; o < 32; ++o) {
    for (int64_t i = 0; i < 16; ++i) {
      for (int64_t k = 0; k < 9; ++k) {
        const int64_t at = ((o / 16 * 9 + k) * 16 + i) * 16 + o % 16;
        ASSERT_EQ(elements[at], expected[static_cast<size_t>((o * 16 + i) * 9 + k)]) << o << ' ' << i << ' ' << k;
      }
    }
  }
}

TEST(PackedLayouts, OfAConstantThatIsNotStoredAreAnError) {
  kernels::KernelData data;
  PackedLayouts(data, 1).get(random_tensor(kDims, 1), kPlain, kBlocked);
  const Tensor released = Tensor::view(DType::F32, kDims, nullptr, nullptr);
  EXPECT_THROW(PackedLayouts(data, 2).get(released, kPlain, kBlocked), Error);
}

}  // namespace
}  // namespace anfora
