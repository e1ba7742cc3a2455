#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_shape(KernelRegistry&) {}

}  // namespace anfora::kernels
