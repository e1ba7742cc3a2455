// What ONNX demands and Anfora's own kernels do not.
#pragma once

#include "frontend/onnx/draft.h"

namespace anfora::onnx {

// Operands that describe a shape, a range or a single number have a rank of their own: the starts of a Slice are a vector, the
// bounds of a Clip scalars. Inference and kernels here take one number in either form; run times refuse the wrong one. Gives
// operands of a known other rank the one that ONNX demands: constants are stored in it, what is computed goes through a Squeeze,
// Unsqueeze or Reshape.
void make_ranks_strict(Draft& draft);

}  // namespace anfora::onnx
