#include "ops/registry.h"

namespace anfora::ops {

void declare_signal(Declarations&) {}

}  // namespace anfora::ops
