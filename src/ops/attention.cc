#include "ops/registry.h"

namespace anfora::ops {

void declare_attention(Declarations&) {}

}  // namespace anfora::ops
