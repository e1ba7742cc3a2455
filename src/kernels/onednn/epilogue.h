// What a lowered operator ("LoweredConv", "LoweredMatMul") does to its result before it is stored, as post-operations.
#pragma once

#include <limits>
#include <optional>

#include "kernels/onednn/primitive.h"

namespace anfora::kernels::onednn {

// Appends the activation that the attributes name; false when oneDNN has none that agrees with it.
bool append_activation(dnnl::post_ops& ops, const AttributeSet& attributes);

// What values are clamped to, NaN aside.
struct Bounds {
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
};
// Those that the activation comes to, if there is one; empty where it is of another kind.
std::optional<Bounds> bounds_of(const AttributeSet& attributes);

}  // namespace anfora::kernels::onednn
