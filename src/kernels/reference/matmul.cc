#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_matmul(KernelRegistry&) {}

}  // namespace anfora::kernels
