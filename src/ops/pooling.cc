#include "ops/registry.h"

namespace anfora::ops {

void declare_pooling(Declarations&) {}

}  // namespace anfora::ops
