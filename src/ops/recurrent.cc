#include "ops/registry.h"

namespace anfora::ops {

void declare_recurrent(Declarations&) {}

}  // namespace anfora::ops
