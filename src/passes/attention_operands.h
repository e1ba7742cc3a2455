// The operands of ONNX's Attention.
#pragma once

namespace anfora::passes {

enum AttentionOperand { Query, Key, ValueOf, Mask, PastKey, PastValue, ValidKeys };

}  // namespace anfora::passes
