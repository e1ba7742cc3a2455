#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_ml_features(KernelRegistry&) {}

}  // namespace anfora::kernels
