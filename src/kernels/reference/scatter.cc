#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_scatter(KernelRegistry&) {}

}  // namespace anfora::kernels
