// What a lowered operator ("LoweredConv", "LoweredMatMul") does to its result before it is stored, as post-operations.
#pragma once

#include "kernels/onednn/primitive.h"

namespace anfora::kernels::onednn {

// Appends the activation that the attributes name; false when oneDNN has none that agrees with it.
bool append_activation(dnnl::post_ops& ops, const AttributeSet& attributes);

}  // namespace anfora::kernels::onednn
