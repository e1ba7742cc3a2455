#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_ordering(KernelRegistry&) {}

}  // namespace anfora::kernels
