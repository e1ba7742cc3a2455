#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_generation(KernelRegistry&) {}

}  // namespace anfora::kernels
