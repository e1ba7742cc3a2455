#include "ops/registry.h"

namespace anfora::ops {

void declare_training(Declarations&) {}

}  // namespace anfora::ops
