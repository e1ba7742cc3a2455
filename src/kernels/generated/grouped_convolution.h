// A convolution in groups by generated code: a product of windows for each group.
//
//     y[n, i, j, g·R + r] = Σ_{a, b, c} x[n, i + a, j + b, g·C + c] · w[g·R + r, c, a, b]        C channels of a group's input, R of its result
//
// A library's kernels are made for many channels: of few they leave lanes of their vectors empty, or read more than they multiply. Here what the
// windows of a group see is copied beside one another, with its padding, and is small enough for the caches. The only group of an image that has few channels is
// computed likewise.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "kernels/generated/product.h"
#include "kernels/prepared.h"

namespace anfora::kernels::generated {

inline constexpr std::string_view kGrouped = "generated:grouped";

// Whether it is expected to be faster than a library's for weights [channels, inputs of a group, rows, columns], or of one axis.
bool has_groups_of_vectors(std::span<const int64_t> weights, const AttributeSet& attributes);
bool prefers_grouped_convolution(const KernelData& data);

// Of LoweredConv. Null where a convolution is neither in groups over one or two axes nor of an image of few channels, with channels last, where its columns have a dilation, the channels of a
// group's result are no multiple of 8, a type is not f32, weights are not constant or not finite, or no code can be generated for an activation. Weights and code that the data has already are taken as they are; without a generator, code must be there. Throws as
// ExecutableCode::map().
std::unique_ptr<PreparedKernel> prepare_grouped_convolution(KernelData& data, ProductGenerator generate);

}  // namespace anfora::kernels::generated
