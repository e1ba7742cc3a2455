#include "kernels/onednn/onednn_kernels.h"

#include "kernels/onednn/families.h"

namespace anfora::kernels {

const PreparedRegistry& onednn_kernels() {
  static const PreparedRegistry registry = [] {
    PreparedRegistry all;
#define ANFORA_REGISTER_FAMILY(family) onednn::register_##family(all);
    ANFORA_ONEDNN_FAMILIES(ANFORA_REGISTER_FAMILY)
#undef ANFORA_REGISTER_FAMILY
    return all;
  }();
  return registry;
}

}  // namespace anfora::kernels
