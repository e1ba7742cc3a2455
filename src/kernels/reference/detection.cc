#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_detection(KernelRegistry&) {}

}  // namespace anfora::kernels
