#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_attention(KernelRegistry&) {}

}  // namespace anfora::kernels
