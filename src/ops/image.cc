#include "ops/registry.h"

namespace anfora::ops {

void declare_image(Declarations&) {}

}  // namespace anfora::ops
