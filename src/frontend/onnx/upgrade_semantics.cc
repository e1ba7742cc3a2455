// Nodes of older versions that need others around them to mean the same.
#include <fmt/format.h>

#include "frontend/onnx/upgrade_rewrites.h"
#include "support/element_types.h"

namespace anfora::onnx::rewrites {

// The shape of B is that of A from `axis` on, by default of A's last axes, which is NumPy's rule. So only a B
// that is to end before A does needs more axes.
ir::Node* align_broadcast(PendingNode& node, std::string_view) {
  int64_t broadcast = take<int64_t>(node, "broadcast").value_or(0);
  std::optional<int64_t> axis = take<int64_t>(node, "axis");
  ir::Node* a = require_input(node, 0);
  ir::Node* b = require_input(node, 1);
  if (broadcast == 0 || !axis) return nullptr;
  const ir::Type* type_a = ranked_type(node, 0);
  const ir::Type* type_b = ranked_type(node, 1);
  if (type_a && type_b) {
    int64_t rank = static_cast<int64_t>(type_a->dims().size());
    int64_t start = *axis < 0 ? *axis + rank : *axis;
    node.inputs[1] = append_axes(node, b, rank - start - static_cast<int64_t>(type_b->dims().size()));
    return nullptr;
  }
  const Emitter& e = node.emitter;
  ir::Node* behind = *axis < 0 ? e.ints({-*axis}) : e.emit("Sub", {rank_of(node, a), e.ints({*axis})});
  node.inputs[1] = append_axes(node, b, e.emit("Sub", {behind, rank_of(node, b)}));
  return nullptr;
}

ir::Node* batch_norm_is_test(PendingNode& node, std::string_view) {
  if (take<int64_t>(node, "is_test").value_or(0) != 0) set_attribute(node, "training_mode", int64_t{0});
  return nullptr;
}

// Up to version 8, `spatial` = 0 normalized every element of an item by itself: the statistics have the shape
// of an item.
ir::Node* batch_norm_spatial(PendingNode& node, std::string_view) {
  if (take<int64_t>(node, "spatial").value_or(1) != 0) return nullptr;
  if (node.num_outputs > 1) throw Error(ErrorCode::Unsupported, "training of BatchNormalization with spatial = 0");
  const Emitter& e = node.emitter;
  ir::Node* x = require_input(node, 0);
  ir::Node* scale = require_input(node, 1);
  ir::Node* bias = require_input(node, 2);
  ir::Node* mean = require_input(node, 3);
  ir::Node* variance = require_input(node, 4);
  ir::Node* epsilon = scalar_like(node, take<float>(node, "epsilon").value_or(1e-5f), x);
  ir::Node* deviation = e.emit("Sqrt", {e.emit("Add", {variance, epsilon})});
  ir::Node* normal = e.emit("Div", {e.emit("Sub", {x, mean}), deviation});
  return e.emit("Add", {e.emit("Mul", {normal, scale}), bias});
}

// An application with more outputs than Y trained: running mean and variance, then those of the batch.
ir::Node* batch_norm_outputs(PendingNode& node, std::string_view) {
  if (node.num_outputs == 1) return nullptr;
  const Emitter& e = node.emitter;
  ir::Module& module = e.importer.module();
  ir::Node* x = require_input(node, 0);
  if (has_attribute(node, "training_mode")) {  // is_test
    ir::Node* mean = require_input(node, 3);
    ir::Node* variance = require_input(node, 4);
    ir::Node* y = e.emit("BatchNormalization", span_of(node.inputs), AttributeSet(std::move(node.attributes)));
    return results(node, {y, mean, variance, mean, variance});
  }
  set_attribute(node, "training_mode", int64_t{1});
  if (node.num_outputs <= 3) return nullptr;
  ir::Apply* trained = e.emit("BatchNormalization", span_of(node.inputs), AttributeSet(std::move(node.attributes)), 3);
  auto item = [&](size_t i) { return module.tuple_item(e.graph, trained, i); };
  // The mean over all axes but that of the channels.
  ir::Node* channels_first = e.emit("Shape", {x}, {{"start", int64_t{1}}, {"end", int64_t{2}}});
  ir::Node* rows = e.emit("Concat", {e.emit("Shape", {x}, {{"end", int64_t{1}}}), channels_first, e.ints({-1})},
                          {{"axis", int64_t{0}}});
  ir::Node* grouped = e.emit("Reshape", {x, rows});
  ir::Node* axes = e.ints({0, 2});
  ir::Node* mean = e.emit("ReduceMean", {grouped, axes});
  ir::Node* centered = e.emit("Sub", {grouped, mean});
  ir::Node* variance = e.emit("ReduceMean", {e.emit("Mul", {centered, centered}), axes}, {{"keepdims", int64_t{0}}});
  return results(node, {item(0), item(1), item(2), e.emit("Squeeze", {mean, axes}), variance});
}

// A run that does not train dropped nothing, and what it gave as the mask was not said; ONNX Runtime gives
// zeros. Before version 10 they are of the type of the data.
ir::Node* dropout_mask(PendingNode& node, std::string_view) {
  if (node.num_outputs == 1) return nullptr;
  const Emitter& e = node.emitter;
  ir::Node* data = require_input(node, 0);
  dropout_ratio_to_input(node, {});
  ir::Node* y = e.emit("Dropout", span_of(node.inputs), AttributeSet(std::move(node.attributes)));
  ir::Node* zero = node.version < 10 ? scalar_like(node, 0, data) : e.boolean(false);
  return results(node, {y, e.emit("Expand", {zero, e.emit("Shape", {data})})});
}

ir::Node* group_norm_per_channel(PendingNode& node, std::string_view) {
  auto groups = std::ranges::find(node.attributes, "num_groups", &AttributeSet::Entry::first);
  const int64_t* count = groups == node.attributes.end() ? nullptr : std::get_if<int64_t>(&groups->second);
  if (!count || *count < 1) throw Error(ErrorCode::InvalidModel, "num_groups is missing or not positive");
  const Emitter& e = node.emitter;
  ir::Node* channels = e.emit("Shape", {require_input(node, 0)}, {{"start", int64_t{1}}, {"end", int64_t{2}}});
  ir::Node* shape =
      e.emit("Concat", {e.ints({*count}), e.emit("Div", {channels, e.ints({*count})})}, {{"axis", int64_t{0}}});
  const ir::Type* x = ranked_type(node, 0);
  for (size_t i : {1, 2}) {
    // There are files that give them by channel, as since version 21.
    const ir::Type* type = ranked_type(node, i);
    bool by_channel = x && type && x->rank() > 1 && type->rank() == 1 && type->dim(0).is_constant() &&
                      type->dim(0).constant() != *count && provably_equal(type->dim(0), x->dim(1));
    if (by_channel) continue;
    ir::Node* column = e.emit("Unsqueeze", {require_input(node, i), e.ints({1})});
    node.inputs[i] = e.emit("Reshape", {e.emit("Expand", {column, shape}), e.ints({-1})});
  }
  return nullptr;
}

// The slope was one number or one a channel, the channels being axis 1; since 7 it is broadcast from the last axis on.
ir::Node* prelu_slope_per_channel(PendingNode& node, std::string_view) {
  ir::Node* x = require_input(node, 0);
  ir::Node* slope = require_input(node, 1);
  const ir::Type* type = ranked_type(node, 1);
  if (!type || type->dims().size() != 1 || type->dim(0).as_constant() == 1) return nullptr;
  const Emitter& e = node.emitter;
  if (const ir::Type* data = ranked_type(node, 0)) {
    node.inputs[1] = append_axes(node, slope, static_cast<int64_t>(data->dims().size()) - 2);
  } else {
    node.inputs[1] = append_axes(node, slope, e.emit("Sub", {rank_of(node, x), e.ints({2})}));
  }
  return nullptr;
}

// Softmax over the axes from `axis` on together. Mostly only one of them is larger than 1: then it is one over that.
ir::Node* softmax_flatten(PendingNode& node, std::string_view) {
  int64_t axis = take<int64_t>(node, "axis").value_or(1);
  ir::Node* x = require_input(node, 0);
  if (const ir::Type* type = ranked_type(node, 0)) {
    int64_t rank = static_cast<int64_t>(type->dims().size());
    int64_t first = axis < 0 ? axis + rank : axis;
    if (first < 0 || first >= rank) {
      throw Error(ErrorCode::InvalidModel, fmt::format("axis {} is out of range for {}", axis, to_string(type)));
    }
    int64_t num_large = 0, large = first;
    for (int64_t k = first; k < rank; ++k) {
      if (type->dim(static_cast<size_t>(k)).as_constant() == 1) continue;
      ++num_large;
      large = k;
    }
    if (num_large <= 1) axis = large;
    if (num_large <= 1 || first == rank - 1) {
      set_attribute(node, "axis", axis);
      return nullptr;
    }
  } else if (axis == -1) {
    set_attribute(node, "axis", axis);
    return nullptr;
  }
  const Emitter& e = node.emitter;
  ir::Node* flat = e.emit("Flatten", {x}, {{"axis", axis}});
  ir::Node* y = e.emit(node.op_type, {flat}, {{"axis", int64_t{-1}}});
  return e.emit("Reshape", {y, e.emit("Shape", {x})});
}

// Version 1 repeated along one axis; both the number and the axis were inputs.
ir::Node* tile_one_axis(PendingNode& node, std::string_view) {
  const Emitter& e = node.emitter;
  auto as_vector = [&](ir::Node* value) {
    ir::Node* integer = e.emit("Cast", {value}, {{"to", static_cast<int64_t>(DType::I64)}});
    return e.emit("Reshape", {integer, e.ints({1})});
  };
  ir::Node* x = require_input(node, 0);
  ir::Node* tiles = as_vector(require_input(node, 1));
  ir::Node* axis = as_vector(require_input(node, 2));
  ir::Node* ones = e.emit("Expand", {e.ints({1}), rank_of(node, x)});
  node.inputs = {x, e.emit("ScatterElements", {ones, axis, tiles})};
  return nullptr;
}

}  // namespace anfora::onnx::rewrites
