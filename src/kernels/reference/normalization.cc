#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_normalization(KernelRegistry&) {}

}  // namespace anfora::kernels
