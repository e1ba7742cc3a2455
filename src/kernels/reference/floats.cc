#include "kernels/reference/floats.h"

#include <algorithm>

#include "support/element_types.h"

namespace anfora::kernels {

Tensor to_floats(const Tensor& tensor) {
  if (tensor.dtype() == DType::F32) return tensor;
  Tensor result = Tensor::allocate(DType::F32, tensor.shape());
  dispatch<Numbers>(tensor.dtype(), [&]<class T>() {
    std::ranges::transform(tensor.data<T>(), result.data<float>().begin(), [](T v) { return static_cast<float>(v); });
  });
  return result;
}

void from_floats(std::span<const float> values, Tensor& output) {
  dispatch<Floats>(output.dtype(), [&]<class T>() {
    std::ranges::transform(values, output.data<T>().begin(), [](float v) { return static_cast<T>(v); });
  });
}

}  // namespace anfora::kernels
