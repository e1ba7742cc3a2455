#include "ops/registry.h"

namespace anfora::ops {

void declare_activation(Declarations&) {}

}  // namespace anfora::ops
