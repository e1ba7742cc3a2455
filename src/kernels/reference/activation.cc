#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_activation(KernelRegistry&) {}

}  // namespace anfora::kernels
