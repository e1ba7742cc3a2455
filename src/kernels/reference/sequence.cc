#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_sequence(KernelRegistry&) {}

}  // namespace anfora::kernels
