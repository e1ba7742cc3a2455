#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_random(KernelRegistry&) {}

}  // namespace anfora::kernels
