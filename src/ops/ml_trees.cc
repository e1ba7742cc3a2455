#include "ops/registry.h"

namespace anfora::ops {

void declare_ml_trees(Declarations&) {}

}  // namespace anfora::ops
