#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_reduction(KernelRegistry&) {}

}  // namespace anfora::kernels
