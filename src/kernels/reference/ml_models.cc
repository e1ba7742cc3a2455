#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_ml_models(KernelRegistry&) {}

}  // namespace anfora::kernels
