// The shapes of a kernel's inputs, by which kernels keep what they prepared for them.
#pragma once

#include <optional>
#include <span>
#include <string_view>
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

// Of shapes that nothing was prepared for: the operator's reference kernel, on these inputs.
void run_reference(KernelContext& context, std::string_view op, std::span<const Datum* const> inputs);

}  // namespace anfora::kernels
