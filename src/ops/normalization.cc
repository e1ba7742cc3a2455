#include "ops/registry.h"

namespace anfora::ops {

void declare_normalization(Declarations&) {}

}  // namespace anfora::ops
