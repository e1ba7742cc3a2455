#include "ops/registry.h"

namespace anfora::ops {

void declare_matmul(Declarations&) {}

}  // namespace anfora::ops
