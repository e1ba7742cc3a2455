// Inference of convolutions and poolings, on the formulas that their kernels use.
#pragma once

#include <optional>

#include "kernels/reference/window.h"
#include "ops/infer_helpers.h"

namespace anfora::ops {

struct InferredWindow : kernels::Window {
  Dims reach;  // along each axis; that of a kernel of symbolic size, which the window takes for 1, is symbolic
};
// The attributes of a window over the spatial dimensions of an input of rank `rank`; `weights`, where given, are the
// weights' dimensions. Empty when nothing is known of the kernel's shape. Throws when the attributes are wrong.
std::optional<InferredWindow> window_of(const InferenceContext& ctx, size_t rank, const std::optional<Dims>& weights);

// Appends the output's spatial dimensions; unknown ones without a window.
void append_window_dims(const InferenceContext& ctx, Dims& result, std::span<const Dim> spatial,
                        const std::optional<InferredWindow>& window);

// The rank of input 0, or what input 1 (weights) or the attribute kernel_shape say it must be. Throws when it leaves no
// spatial dimension.
std::optional<size_t> windowed_rank(const InferenceContext& ctx, bool has_weights);

// Of Conv, and of what is a Conv with something behind it: input 0 is the data, input 1 the weights.
void infer_convolution(InferenceContext& ctx);
void infer_pool(InferenceContext& ctx);         // also of MaxPool's indices
void infer_global_pool(InferenceContext& ctx);  // every channel becomes one element
// Multiplications and additions: each output channel's kernel once for each output position.
double convolution_flops(const InferenceContext& ctx);

}  // namespace anfora::ops
