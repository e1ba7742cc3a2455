#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_recurrent(KernelRegistry&) {}

}  // namespace anfora::kernels
