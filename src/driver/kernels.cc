#include "driver/kernels.h"

#include "codegen/generated_kernels.h"
#include "kernels/onednn/winograd.h"

namespace anfora {

std::vector<const kernels::PreparedRegistry*> generating_kernels() {
  // A library's transforms and activations around generated products: neither layer knows the other.
  static const kernels::PreparedRegistry both = [] {
    kernels::PreparedRegistry all;
    all.add(kernels::generated::kConvolution, "generated:winograd",
            [](kernels::KernelData& data) { return kernels::onednn::prepare_winograd(data, codegen::product_generator()); });
    return all;
  }();
  return {&codegen::generating_kernels(), &both};
}

}  // namespace anfora
