#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_pooling(KernelRegistry&) {}

}  // namespace anfora::kernels
