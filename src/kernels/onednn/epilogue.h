// What a lowered operator ("LoweredConv", "LoweredMatMul") does to its result before it is stored, as post-operations.
#pragma once

#include <limits>
#include <optional>

#include "kernels/onednn/primitive.h"

namespace anfora::kernels::onednn {

// Appends the activation that the attributes name; false when oneDNN has none that agrees with it.
bool append_activation(dnnl::post_ops& ops, const AttributeSet& attributes);

// An activation of straight pieces: negative values times the slope, then all within the bounds, NaN aside.
struct StraightPieces {
  float slope = 1;
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();

  // Of a number, or of each one of a vector.
  template <class Value>
  [[gnu::always_inline]] void apply(Value& value) const {
    const Value zero{}, lowest = zero + low, highest = zero + high;
    if (slope != 1) value = value < zero ? slope * value : value;
    value = value < lowest ? lowest : value;
    value = value > highest ? highest : value;
  }
};
// Those of the activation, if there is one; empty where it is of another kind.
std::optional<StraightPieces> straight_pieces(const AttributeSet& attributes);

}  // namespace anfora::kernels::onednn
