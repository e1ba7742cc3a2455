#include "ops/registry.h"

namespace anfora::ops {

void declare_indexing(Declarations&) {}

}  // namespace anfora::ops
