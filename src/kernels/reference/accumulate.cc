#include "kernels/reference/accumulate.h"

#include "kernels/reference/broadcast.h"
#include "support/parallel.h"

namespace anfora::kernels {
namespace {

using Narrower = TypeList<Float16, BFloat16, int8_t, int16_t, uint8_t, uint16_t>;

template <class Body>
void for_narrow(DType dtype, int64_t count, Body&& body) {
  dispatch<Narrower>(dtype, [&]<class T>() {
    using Wide = std::conditional_t<std::is_integral_v<T>, uint32_t, float>;
    parallel_for(count, kElementwiseGrain,
                 [&](int64_t begin, int64_t end) { body.template operator()<T, Wide>(begin, end); });
  });
}

}  // namespace

DType accumulator_of(DType dtype) {
  switch (dtype) {
    case DType::F32:
    case DType::F16:
    case DType::BF16: return DType::F32;
    case DType::F64: return DType::F64;
    case DType::I8:
    case DType::U8:
    case DType::I16:
    case DType::U16:
    case DType::I32:
    case DType::U32: return DType::U32;
    case DType::I64:
    case DType::U64: return DType::U64;
    default: throw_unsupported_dtype(dtype);
  }
}

Tensor widen(KernelContext& context, const Tensor& tensor) {
  DType wide = accumulator_of(tensor.dtype());
  if (wide == tensor.dtype()) return tensor;
  if (element_bytes(wide) == element_bytes(tensor.dtype())) {
    return Tensor::view(wide, tensor.shape(), const_cast<void*>(tensor.raw()), tensor.owner());
  }
  Tensor result = context.temporary(wide, tensor.shape());
  for_narrow(tensor.dtype(), tensor.size(), [&]<class T, class Wide>(int64_t begin, int64_t end) {
    const T* from = tensor.data<T>().data();
    Wide* to = result.data<Wide>().data();
    for (int64_t i = begin; i < end; ++i) to[i] = static_cast<Wide>(from[i]);
  });
  return result;
}

void narrow_into(const Tensor& wide, Tensor& out) {
  for_narrow(out.dtype(), out.size(), [&]<class T, class Wide>(int64_t begin, int64_t end) {
    const Wide* from = wide.data<Wide>().data();
    T* to = out.data<T>().data();
    for (int64_t i = begin; i < end; ++i) to[i] = static_cast<T>(from[i]);
  });
}

WideOutput::WideOutput(KernelContext& context, size_t i, DType dtype, std::span<const int64_t> shape)
    : output_(&context.allocate_output(i, dtype, shape)) {
  DType wide = accumulator_of(dtype);
  separate_ = element_bytes(wide) != element_bytes(dtype);
  wide_ = separate_ ? context.temporary(wide, shape) : Tensor::view(wide, shape, output_->raw(), output_->owner());
}

void WideOutput::finish() {
  if (separate_) narrow_into(wide_, *output_);
}

}  // namespace anfora::kernels
