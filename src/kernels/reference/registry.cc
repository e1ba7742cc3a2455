#include "kernels/reference/families.h"

namespace anfora::kernels {

const KernelRegistry& reference_kernels() {
  static const KernelRegistry registry = [] {
    KernelRegistry all;
#define ANFORA_REGISTER_FAMILY(family) register_##family(all);
    ANFORA_KERNEL_FAMILIES(ANFORA_REGISTER_FAMILY)
#undef ANFORA_REGISTER_FAMILY
    return all;
  }();
  return registry;
}

}  // namespace anfora::kernels
