#include "ops/registry.h"

namespace anfora::ops {

void declare_detection(Declarations&) {}

}  // namespace anfora::ops
