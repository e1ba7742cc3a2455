#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_text(KernelRegistry&) {}

}  // namespace anfora::kernels
