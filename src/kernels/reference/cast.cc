#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_cast(KernelRegistry&) {}

}  // namespace anfora::kernels
