#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_logic(KernelRegistry&) {}

}  // namespace anfora::kernels
