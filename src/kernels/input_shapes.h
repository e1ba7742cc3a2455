// The shapes of a kernel's inputs, by which kernels keep what they prepared for them.
#pragma once

#include <optional>
#include <vector>

#include "kernels/prepared.h"

namespace anfora::kernels {

// An omitted input has none.
using InputShapes = std::vector<std::optional<Shape>>;

InputShapes input_shapes(const KernelContext& context);
// As far as they are known before the run.
InputShapes input_shapes(const KernelData& data);
// Whether those are the shapes of this invocation's inputs; allocates nothing.
bool are_input_shapes(const InputShapes& shapes, const KernelContext& context);

}  // namespace anfora::kernels
