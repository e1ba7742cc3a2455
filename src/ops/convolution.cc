#include "ops/registry.h"

namespace anfora::ops {

void declare_convolution(Declarations&) {}

}  // namespace anfora::ops
