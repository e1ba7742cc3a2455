#include "ops/registry.h"

namespace anfora::ops {

void declare_text(Declarations&) {}

}  // namespace anfora::ops
