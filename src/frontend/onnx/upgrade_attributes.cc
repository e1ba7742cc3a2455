// Attributes renamed, dropped, retyped, or turned into inputs.
#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "frontend/onnx/upgrade_rewrites.h"
#include "support/element_types.h"

namespace anfora::onnx::rewrites {

// Tools ---------------------------------------------------------------------------------------------

template <class T>
std::optional<T> take(PendingNode& node, std::string_view name) {
  auto found = std::ranges::find(node.attributes, name, &AttributeSet::Entry::first);
  if (found == node.attributes.end()) return std::nullopt;
  T* value = std::get_if<T>(&found->second);
  if (!value)
    throw Error(ErrorCode::InvalidModel, fmt::format("the attribute '{}' is of another kind than it must be", name));
  T taken = std::move(*value);
  node.attributes.erase(found);
  return taken;
}
template std::optional<int64_t> take(PendingNode&, std::string_view);
template std::optional<float> take(PendingNode&, std::string_view);
template std::optional<std::string> take(PendingNode&, std::string_view);
template std::optional<std::vector<int64_t>> take(PendingNode&, std::string_view);
template std::optional<std::vector<float>> take(PendingNode&, std::string_view);
template std::optional<std::vector<std::string>> take(PendingNode&, std::string_view);

bool has_attribute(const PendingNode& node, std::string_view name) {
  return std::ranges::find(node.attributes, name, &AttributeSet::Entry::first) != node.attributes.end();
}

void set_attribute(PendingNode& node, std::string_view name, AttributeValue value) {
  auto found = std::ranges::find(node.attributes, name, &AttributeSet::Entry::first);
  if (found != node.attributes.end()) {
    found->second = std::move(value);
  } else {
    node.attributes.emplace_back(name, std::move(value));
  }
}

void set_input(PendingNode& node, size_t i, ir::Node* value) {
  while (node.inputs.size() <= i) node.inputs.push_back(node.emitter.importer.module().none());
  node.inputs[i] = value;
}

ir::Node* require_input(const PendingNode& node, size_t i) {
  if (!node.has_input(i)) throw Error(ErrorCode::InvalidModel, fmt::format("input {} is missing", i));
  return node.inputs[i];
}

const ir::Type* ranked_type(const PendingNode& node, size_t i) {
  const ir::Type* type = node.has_input(i) ? node.emitter.importer.known_type(node.inputs[i]) : nullptr;
  return type && type->is_tensor() && type->has_rank() ? type : nullptr;
}

ir::Node* scalar_like(const PendingNode& node, float value, ir::Node* like) {
  ir::Node* scalar = node.emitter.importer.module().scalar<float>(value);
  const ir::Type* type = node.emitter.importer.known_type(like);
  if (type && type->is_tensor() && type->dtype() == DType::F32) return scalar;
  return node.emitter.emit("CastLike", {scalar, like});
}

ir::Node* rank_of(const PendingNode& node, ir::Node* value) {
  return node.emitter.emit("Shape", {node.emitter.emit("Shape", {value})});
}

ir::Node* append_axes(const PendingNode& node, ir::Node* value, int64_t count) {
  if (count <= 0) return value;
  std::vector<int64_t> axes(static_cast<size_t>(count));
  std::iota(axes.begin(), axes.end(), -count);
  return node.emitter.emit("Unsqueeze", {value, node.emitter.ints(axes)});
}

ir::Node* append_axes(const PendingNode& node, ir::Node* value, ir::Node* count) {
  const Emitter& e = node.emitter;
  ir::Node* ones = e.emit("Expand", {e.ints({1}), e.emit("Max", {count, e.ints({0})})});
  return e.emit("Reshape", {value, e.emit("Concat", {e.emit("Shape", {value}), ones}, {{"axis", int64_t{0}}})});
}

ir::Node* results(const PendingNode& node, std::initializer_list<ir::Node*> values) {
  if (node.num_outputs == 1) return *values.begin();
  if (node.num_outputs > values.size()) {
    throw Error(ErrorCode::InvalidModel,
                fmt::format("the node has {} outputs, its operator {}", node.num_outputs, values.size()));
  }
  return node.emitter.importer.module().make_tuple(node.emitter.graph, {values.begin(), node.num_outputs});
}

// Attributes ----------------------------------------------------------------------------------------

ir::Node* drop(PendingNode& node, std::string_view attribute) {
  std::erase_if(node.attributes, [&](const AttributeSet::Entry& entry) { return entry.first == attribute; });
  return nullptr;
}

ir::Node* ints_to_input(PendingNode& node, std::string_view attribute) {
  if (auto values = take<std::vector<int64_t>>(node, attribute)) set_input(node, 1, node.emitter.ints(*values));
  return nullptr;
}

ir::Node* axes_to_input(PendingNode& node, std::string_view) { return ints_to_input(node, "axes"); }

ir::Node* cast_type_name(PendingNode& node, std::string_view) {
  constexpr std::pair<std::string_view, DType> kNames[] = {
      {"FLOAT", DType::F32},  {"UINT8", DType::U8},      {"INT8", DType::I8},        {"UINT16", DType::U16},
      {"INT16", DType::I16},  {"INT32", DType::I32},     {"INT64", DType::I64},      {"STRING", DType::String},
      {"BOOL", DType::Bool},  {"FLOAT16", DType::F16},   {"DOUBLE", DType::F64},     {"UINT32", DType::U32},
      {"UINT64", DType::U64}, {"COMPLEX64", DType::C64}, {"COMPLEX128", DType::C128}};
  auto to = std::ranges::find(node.attributes, "to", &AttributeSet::Entry::first);
  if (to == node.attributes.end()) return nullptr;
  auto* name = std::get_if<std::string>(&to->second);
  if (!name) return nullptr;  // some wrote the number already
  auto found = std::ranges::find(kNames, *name, &std::pair<std::string_view, DType>::first);
  if (found == std::end(kNames))
    throw Error(ErrorCode::InvalidModel, fmt::format("there is no element type '{}'", *name));
  to->second = static_cast<int64_t>(found->second);
  return nullptr;
}

ir::Node* clip_limits_to_inputs(PendingNode& node, std::string_view) {
  ir::Node* data = require_input(node, 0);
  // Infinite limits and the default ones are none.
  auto limit = [&](std::string_view name, size_t i) {
    std::optional<float> value = take<float>(node, name);
    if (value && std::abs(*value) < std::numeric_limits<float>::max())
      set_input(node, i, scalar_like(node, *value, data));
  };
  limit("min", 1);
  limit("max", 2);
  return nullptr;
}

ir::Node* concat_default_axis(PendingNode& node, std::string_view) {
  if (!has_attribute(node, "axis")) set_attribute(node, "axis", int64_t{1});
  return nullptr;
}

ir::Node* dft_axis_to_input(PendingNode& node, std::string_view) {
  set_input(node, 2, node.emitter.scalar(take<int64_t>(node, "axis").value_or(1)));
  return nullptr;
}

ir::Node* dropout_ratio_to_input(PendingNode& node, std::string_view) {
  if (auto ratio = take<float>(node, "ratio")) set_input(node, 1, node.emitter.importer.module().scalar<float>(*ratio));
  return nullptr;
}

ir::Node* grid_sample_mode_names(PendingNode& node, std::string_view) {
  std::string mode = take<std::string>(node, "mode").value_or("bilinear");
  set_attribute(node, "mode", mode == "bilinear" ? "linear" : mode == "bicubic" ? "cubic" : mode);
  return nullptr;
}

ir::Node* integral_p(PendingNode& node, std::string_view) {
  auto p = std::ranges::find(node.attributes, "p", &AttributeSet::Entry::first);
  if (p == node.attributes.end()) return nullptr;
  if (auto* value = std::get_if<float>(&p->second)) {
    if (*value != std::floor(*value) || !(*value >= 1 && *value <= 1e6f)) {
      throw Error(ErrorCode::Unsupported, fmt::format("p is {}, but no integer from 1 on", *value));
    }
    p->second = static_cast<int64_t>(*value);
  }
  return nullptr;
}

// The classes stand for their positions: strings give numbers, numbers give strings.
ir::Node* label_encoder_classes(PendingNode& node, std::string_view) {
  auto classes = take<std::vector<std::string>>(node, "classes_strings");
  if (!classes) throw Error(ErrorCode::InvalidModel, "the attribute 'classes_strings' is missing");
  const ir::Type* type = node.emitter.importer.known_type(require_input(node, 0));
  if (!type || !type->is_tensor() || type->dtype() == DType::Undefined) {
    throw Error(ErrorCode::Unsupported, "it cannot be told whether strings or integers are encoded")
        .with_hint("declare the type of the input");
  }
  std::vector<int64_t> positions(classes->size());
  std::iota(positions.begin(), positions.end(), 0);
  bool from_strings = type->dtype() == DType::String;
  set_attribute(node, from_strings ? "keys_strings" : "keys_int64s",
                from_strings ? AttributeValue(*classes) : AttributeValue(positions));
  set_attribute(node, from_strings ? "values_int64s" : "values_strings",
                from_strings ? AttributeValue(positions) : AttributeValue(*classes));
  drop(node, from_strings ? "default_string" : "default_int64");
  return nullptr;
}

ir::Node* pad_rename_paddings(PendingNode& node, std::string_view) {
  if (auto pads = take<std::vector<int64_t>>(node, "paddings")) set_attribute(node, "pads", std::move(*pads));
  return nullptr;
}

ir::Node* pad_attributes_to_inputs(PendingNode& node, std::string_view) {
  auto pads = take<std::vector<int64_t>>(node, "pads");
  if (!pads) throw Error(ErrorCode::InvalidModel, "the attribute 'pads' is missing");
  set_input(node, 1, node.emitter.ints(*pads));
  std::optional<float> value = take<float>(node, "value");
  if (value && *value != 0) set_input(node, 2, scalar_like(node, *value, require_input(node, 0)));
  return nullptr;
}

ir::Node* rename_operator(PendingNode& node, std::string_view new_name) {
  node.op_type = new_name;
  return nullptr;
}

ir::Node* roi_align_half_pixel(PendingNode& node, std::string_view) {
  set_attribute(node, "coordinate_transformation_mode", "output_half_pixel");
  return nullptr;
}

ir::Node* selu_defaults(PendingNode& node, std::string_view) {
  if (!has_attribute(node, "alpha")) set_attribute(node, "alpha", 1.6732f);
  if (!has_attribute(node, "gamma")) set_attribute(node, "gamma", 1.0507f);
  return nullptr;
}

ir::Node* slice_attributes_to_inputs(PendingNode& node, std::string_view) {
  size_t i = 1;
  for (std::string_view name : {"starts", "ends", "axes"}) {
    auto values = take<std::vector<int64_t>>(node, name);
    if (values) {
      set_input(node, i, node.emitter.ints(*values));
    } else if (name != "axes") {
      throw Error(ErrorCode::InvalidModel, fmt::format("the attribute '{}' is missing", name));
    }
    ++i;
  }
  return nullptr;
}

// Version 1 had the lengths of the parts as an attribute or as an input, of any type.
ir::Node* split_lengths_to_integers(PendingNode& node, std::string_view) {
  if (!node.has_input(1) || has_attribute(node, "split")) return nullptr;
  set_input(node, 1, node.emitter.emit("Cast", {node.inputs[1]}, {{"to", static_cast<int64_t>(DType::I64)}}));
  return nullptr;
}

ir::Node* split_num_outputs(PendingNode& node, std::string_view) {
  if (!node.has_input(1)) set_attribute(node, "num_outputs", static_cast<int64_t>(node.fields.outputs.size()));
  return nullptr;
}

ir::Node* top_k_to_input(PendingNode& node, std::string_view) {
  auto k = take<int64_t>(node, "k");
  if (!k) throw Error(ErrorCode::InvalidModel, "the attribute 'k' is missing");
  set_input(node, 1, node.emitter.ints({*k}));
  return nullptr;
}

}  // namespace anfora::onnx::rewrites
