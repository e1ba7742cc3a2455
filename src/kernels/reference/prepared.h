// Reference kernels that read so much from their attributes that they do it once, when a model is loaded.
#pragma once

#include "kernels/prepared.h"

namespace anfora::kernels {

// Made once. Each computes what the operator's reference kernel does.
const PreparedRegistry& prepared_reference_kernels();

void prepare_lowered(PreparedRegistry& registry);
void prepare_ml_trees(PreparedRegistry& registry);

}  // namespace anfora::kernels
