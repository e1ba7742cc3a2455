#include "ops/registry.h"

namespace anfora::ops {

const ir::OperatorTable& operators() {
  static const auto* const all = [] {
    auto* table = new ir::OperatorTable;  // never destroyed: at exit, other threads may still compile
#define ANFORA_DECLARE_ALL(family) \
  {                                \
    Declarations declare(*table);  \
    declare_##family(declare);     \
  }
    ANFORA_OPERATOR_FAMILIES(ANFORA_DECLARE_ALL)
#undef ANFORA_DECLARE_ALL
    return table;
  }();
  return *all;
}

std::unique_ptr<ir::Context> make_context() { return std::make_unique<ir::Context>(operators()); }

kernels::KernelFunction reference_kernel(const ir::Operator& op) {
  return op.kernel.empty() ? nullptr : kernels::reference_kernels().find(op.kernel);
}

}  // namespace anfora::ops
