#include "ops/registry.h"

namespace anfora::ops {

void declare_arithmetic(Declarations&) {}

}  // namespace anfora::ops
