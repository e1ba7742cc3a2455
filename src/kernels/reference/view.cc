#include "kernels/reference/view.h"

#include "kernels/reference/strided_copy.h"

namespace anfora::kernels {

void forward_or_copy(KernelContext& context, size_t i, const Tensor& tensor, std::span<const int64_t> shape) {
  const Tensor* planned = context.planned_output(i);
  if (!planned || planned->raw() == tensor.raw() || tensor.dtype() == DType::String) {
    context.set_output(i, tensor.reshaped(shape));
    return;
  }
  Tensor& output = context.allocate_output(i, tensor.dtype(), shape);
  dense_copy(tensor.dtype(), tensor.size(), output.raw(), tensor.raw());
}

}  // namespace anfora::kernels
