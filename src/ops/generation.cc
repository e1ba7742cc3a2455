#include "ops/registry.h"

namespace anfora::ops {

void declare_generation(Declarations&) {}

}  // namespace anfora::ops
