#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_convolution(KernelRegistry&) {}

}  // namespace anfora::kernels
