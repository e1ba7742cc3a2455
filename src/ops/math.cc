#include "ops/registry.h"

namespace anfora::ops {

void declare_math(Declarations&) {}

}  // namespace anfora::ops
