#include "ops/registry.h"

namespace anfora::ops {

void declare_quantization(Declarations&) {}

}  // namespace anfora::ops
