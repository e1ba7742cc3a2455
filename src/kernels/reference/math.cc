#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_math(KernelRegistry&) {}

}  // namespace anfora::kernels
