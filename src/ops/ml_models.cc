#include "ops/registry.h"

namespace anfora::ops {

void declare_ml_models(Declarations&) {}

}  // namespace anfora::ops
