#include "ops/registry.h"

namespace anfora::ops {

void declare_reduction(Declarations&) {}

}  // namespace anfora::ops
