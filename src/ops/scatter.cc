#include "ops/registry.h"

namespace anfora::ops {

void declare_scatter(Declarations&) {}

}  // namespace anfora::ops
