#include "ops/registry.h"

namespace anfora::ops {

void declare_shape(Declarations&) {}

}  // namespace anfora::ops
