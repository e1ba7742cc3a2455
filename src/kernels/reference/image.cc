#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_image(KernelRegistry&) {}

}  // namespace anfora::kernels
