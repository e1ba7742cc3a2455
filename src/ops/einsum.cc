#include "ops/registry.h"

namespace anfora::ops {

void declare_einsum(Declarations&) {}

}  // namespace anfora::ops
