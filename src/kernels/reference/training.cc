#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_training(KernelRegistry&) {}

}  // namespace anfora::kernels
