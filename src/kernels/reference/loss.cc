#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_loss(KernelRegistry&) {}

}  // namespace anfora::kernels
