// What the entries of the table in upgrade.cc do to a node. Each rewrites it in place and gives null, or gives the
// finished result; `argument` is the entry's, in most cases the name of an attribute.
//
//     upgrade_attributes.cc     attributes renamed, dropped, retyped, or turned into inputs
//     upgrade_semantics.cc      nodes that need others around them to mean the same
//     upgrade_resize.cc         Upsample and Resize
//     upgrade_experimental.cc   operators that ONNX had as experiments and withdrew
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>

#include "anfora/error.h"
#include "frontend/onnx/importer.h"

namespace anfora::onnx::rewrites {

using Rewrite = ir::Node* (*)(PendingNode&, std::string_view argument);

// Tools ---------------------------------------------------------------------------------------------

// The attribute's value, which the node has no longer; empty when it had none. Throws when it is of another kind.
template <class T>
std::optional<T> take(PendingNode& node, std::string_view name);
extern template std::optional<int64_t> take(PendingNode&, std::string_view);
extern template std::optional<float> take(PendingNode&, std::string_view);
extern template std::optional<std::string> take(PendingNode&, std::string_view);
extern template std::optional<std::vector<int64_t>> take(PendingNode&, std::string_view);
extern template std::optional<std::vector<float>> take(PendingNode&, std::string_view);
extern template std::optional<std::vector<std::string>> take(PendingNode&, std::string_view);

bool has_attribute(const PendingNode& node, std::string_view name);
void set_attribute(PendingNode& node, std::string_view name, AttributeValue value);
// Input i, with omitted ones put before it as needed.
void set_input(PendingNode& node, size_t i, ir::Node* value);
// Throws InvalidModel when input i is not there.
ir::Node* require_input(const PendingNode& node, size_t i);
// The type of input i where it is a tensor whose rank is known by now, else null.
const ir::Type* ranked_type(const PendingNode& node, size_t i);
// A scalar of the element type of `like`.
ir::Node* scalar_like(const PendingNode& node, float value, ir::Node* like);
// `value` with axes of size 1 added at its end; `count` as an i64 vector of one element when it is not known.
ir::Node* append_axes(const PendingNode& node, ir::Node* value, int64_t count);
ir::Node* append_axes(const PendingNode& node, ir::Node* value, ir::Node* count);
// The rank of a tensor, computed when the model runs: an i64 vector of one element.
ir::Node* rank_of(const PendingNode& node, ir::Node* value);
// The results of a node: the value itself when the node has one output, else the tuple.
ir::Node* results(const PendingNode& node, std::initializer_list<ir::Node*> values);

// Attributes ----------------------------------------------------------------------------------------

ir::Node* drop(PendingNode&, std::string_view attribute);
ir::Node* ints_to_input(PendingNode&, std::string_view attribute);  // the next input
ir::Node* axes_to_input(PendingNode&, std::string_view);
ir::Node* cast_type_name(PendingNode&, std::string_view);
ir::Node* clip_limits_to_inputs(PendingNode&, std::string_view);
ir::Node* concat_default_axis(PendingNode&, std::string_view);
ir::Node* dft_axis_to_input(PendingNode&, std::string_view);
ir::Node* dropout_ratio_to_input(PendingNode&, std::string_view);
ir::Node* grid_sample_mode_names(PendingNode&, std::string_view);
ir::Node* integral_p(PendingNode&, std::string_view);
ir::Node* label_encoder_classes(PendingNode&, std::string_view);
ir::Node* pad_rename_paddings(PendingNode&, std::string_view);
ir::Node* pad_attributes_to_inputs(PendingNode&, std::string_view);
ir::Node* rename_operator(PendingNode&, std::string_view new_name);
ir::Node* roi_align_half_pixel(PendingNode&, std::string_view);
ir::Node* selu_defaults(PendingNode&, std::string_view);
ir::Node* slice_attributes_to_inputs(PendingNode&, std::string_view);
ir::Node* split_lengths_to_integers(PendingNode&, std::string_view);
ir::Node* split_num_outputs(PendingNode&, std::string_view);
ir::Node* top_k_to_input(PendingNode&, std::string_view);

// Semantics -----------------------------------------------------------------------------------------

ir::Node* align_broadcast(PendingNode&, std::string_view);
ir::Node* batch_norm_is_test(PendingNode&, std::string_view);
ir::Node* batch_norm_outputs(PendingNode&, std::string_view);
ir::Node* batch_norm_spatial(PendingNode&, std::string_view);
ir::Node* dropout_mask(PendingNode&, std::string_view);
ir::Node* group_norm_per_channel(PendingNode&, std::string_view);
ir::Node* prelu_slope_per_channel(PendingNode&, std::string_view);
ir::Node* softmax_flatten(PendingNode&, std::string_view);
ir::Node* tile_one_axis(PendingNode&, std::string_view);

ir::Node* upsample_two_scales(PendingNode&, std::string_view);
ir::Node* upsample_scales_to_input(PendingNode&, std::string_view);
ir::Node* upsample_to_resize(PendingNode&, std::string_view);
ir::Node* resize_coordinates(PendingNode&, std::string_view);

ir::Node* affine(PendingNode&, std::string_view);
ir::Node* constant_fill(PendingNode&, std::string_view);
ir::Node* crop(PendingNode&, std::string_view);
ir::Node* dynamic_slice(PendingNode&, std::string_view);
ir::Node* image_scaler(PendingNode&, std::string_view);
ir::Node* layer_norm_of_two_types(PendingNode&, std::string_view);
ir::Node* mean_variance_by_channel(PendingNode&, std::string_view);
ir::Node* parametric_softplus(PendingNode&, std::string_view);
ir::Node* scale(PendingNode&, std::string_view);
ir::Node* scaled_tanh(PendingNode&, std::string_view);

}  // namespace anfora::onnx::rewrites
