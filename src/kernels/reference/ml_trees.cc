#include "kernels/reference/families.h"

namespace anfora::kernels {

void register_ml_trees(KernelRegistry&) {}

}  // namespace anfora::kernels
