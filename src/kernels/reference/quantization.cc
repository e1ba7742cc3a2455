#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_quantization(KernelRegistry&) {}

}  // namespace anfora::kernels
