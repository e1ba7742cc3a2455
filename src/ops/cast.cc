#include "ops/registry.h"

namespace anfora::ops {

void declare_cast(Declarations&) {}

}  // namespace anfora::ops
