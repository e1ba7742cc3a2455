// What the attentions of ONNX Runtime share in their inference.
#pragma once

#include "ops/infer_helpers.h"

namespace anfora::ops {

// The size of a head; not known where the width is not. Throws when the heads do not divide the width.
Dim head_size(const InferenceContext& ctx, Dim width, int64_t heads);

// Throws unless input i, where given, may be a mask of keys: [batch], [2 · batch] or [3 · batch + 2], [batch, keys],
// [batch, queries, keys] or [batch, 1, longest, longest].
void require_attention_mask(const InferenceContext& ctx, size_t i);

}  // namespace anfora::ops
