#include "ops/registry.h"

namespace anfora::ops {

std::unique_ptr<ir::Context> make_context() {
  auto context = std::make_unique<ir::Context>();
#define ANFORA_DECLARE_ALL(family)  \
  {                                 \
    Declarations declare(*context); \
    declare_##family(declare);      \
  }
  ANFORA_OPERATOR_FAMILIES(ANFORA_DECLARE_ALL)
#undef ANFORA_DECLARE_ALL
  return context;
}

kernels::KernelFunction reference_kernel(const ir::Operator& op) {
  return op.kernel.empty() ? nullptr : kernels::reference_kernels().find(op.kernel);
}

}  // namespace anfora::ops
