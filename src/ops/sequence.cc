#include "ops/registry.h"

namespace anfora::ops {

void declare_sequence(Declarations&) {}

}  // namespace anfora::ops
