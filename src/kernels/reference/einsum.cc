#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_einsum(KernelRegistry&) {}

}  // namespace anfora::kernels
