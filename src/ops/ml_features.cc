#include "ops/registry.h"

namespace anfora::ops {

void declare_ml_features(Declarations&) {}

}  // namespace anfora::ops
