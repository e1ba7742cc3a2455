#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_indexing(KernelRegistry&) {}

}  // namespace anfora::kernels
