// The types that sums of products are formed in, and the way in and out of them.
//
// Products of narrow floats are summed in f32. Integer products wrap around: their low bits do not depend on the sign
// nor on a wider type, so that u32 and u64 serve all integers. Four instantiations of an inner loop thus serve every
// numeric dtype, at the price of a copy of the narrow operands.
#pragma once

#include "kernels/kernel.h"
#include "support/element_types.h"

namespace anfora::kernels {

using Accumulators = TypeList<float, double, uint32_t, uint64_t>;
using FloatAccumulators = TypeList<float, double>;

// f32, f64, u32 or u64; throws Unsupported for dtypes that have no arithmetic.
DType accumulator_of(DType dtype);

// `tensor` in its accumulator: shares memory when the bits are the same, else it is in the workspace.
Tensor widen(KernelContext& context, const Tensor& tensor);
// The elements of `wide`, a tensor in the accumulator of `out`'s dtype, rounded or cut to it.
void narrow_into(const Tensor& wide, Tensor& out);

// Output `i` of a kernel as a tensor in the accumulator: the output itself where its bits are the same, else a
// temporary one that finish() narrows. Its bytes are not initialized.
class WideOutput {
 public:
  WideOutput(KernelContext& context, size_t i, DType dtype, std::span<const int64_t> shape);
  Tensor& tensor() { return wide_; }
  template <class T>
  T* data() {
    return wide_.data<T>().data();
  }
  void finish();

 private:
  Tensor* output_;
  Tensor wide_;
  bool separate_;
};

}  // namespace anfora::kernels
