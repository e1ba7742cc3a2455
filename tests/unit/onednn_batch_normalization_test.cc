#include "prepare_kernel.h"

namespace anfora {
namespace {

TEST(OnednnBatchNormalization, AgreesWithTheReference) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{2, 16, 7, 9}, {1, 3, 5}, {2, 5, 3, 4, 3}, {4, 24}}) {
    SCOPED_TRACE(to_string(shape));
    const int64_t channels = shape[1];
    Tensor scale = random_tensor({channels}, 2), shift = random_tensor({channels}, 3),
           mean = random_tensor({channels}, 4);
    Tensor variance = random_tensor({channels}, 5);
    for (float& v : variance.data<float>()) v = v * v + 0.1f;
    expect_prepared("BatchNormalization", {{"epsilon", 1e-3f}}, {random_tensor(shape, 1), scale, shift, mean, variance},
                    1);
    if (shape.size() < 3) continue;
    std::vector<int64_t> last = shape;
    std::rotate(last.begin() + 1, last.begin() + 2, last.end());
    AttributeSet attributes{{"channels_last", int64_t{1}}};
    Tensor x = random_tensor(last, 1);
    expect_prepared("LoweredBatchNormalization", attributes, {x, scale, shift, mean, variance}, 1);
    expect_prepared("LoweredBatchNormalization", attributes.with("activation", std::string("Relu")),
                    {x, scale, shift, mean, variance}, 1, true);
  }
}

}  // namespace
}  // namespace anfora
