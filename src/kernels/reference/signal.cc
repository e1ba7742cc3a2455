#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_signal(KernelRegistry&) {}

}  // namespace anfora::kernels
