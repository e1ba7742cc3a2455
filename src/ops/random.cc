#include "ops/registry.h"

namespace anfora::ops {

void declare_random(Declarations&) {}

}  // namespace anfora::ops
