#include "ops/registry.h"

namespace anfora::ops {

void declare_logic(Declarations&) {}

}  // namespace anfora::ops
