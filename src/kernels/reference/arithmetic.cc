#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_arithmetic(KernelRegistry&) {}

}  // namespace anfora::kernels
