#include "ops/registry.h"

namespace anfora::ops {

void declare_ordering(Declarations&) {}

}  // namespace anfora::ops
