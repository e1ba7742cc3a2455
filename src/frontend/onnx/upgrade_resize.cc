// Upsample and the first Resize. Both took the pixel at x / scale of the input ("asymmetric"), rounded down where they
// enlarge; Resize also made smaller, and then rounded up.
#include "frontend/onnx/upgrade_rewrites.h"
#include "support/element_types.h"

namespace anfora::onnx::rewrites {
namespace {

void set_floats_input(PendingNode& node, size_t i, const std::vector<float>& values) {
  set_input(node, i, node.emitter.importer.module().constant(Tensor::vector<float>(values)));
}

void move_scales_behind_roi(PendingNode& node) {
  ir::Node* scales = require_input(node, 1);
  set_input(node, 2, scales);
  node.inputs[1] = node.emitter.importer.module().none();
  set_attribute(node, "coordinate_transformation_mode", "asymmetric");
}

}  // namespace

ir::Node* upsample_two_scales(PendingNode& node, std::string_view) {
  float height = take<float>(node, "height_scale").value_or(1), width = take<float>(node, "width_scale").value_or(1);
  if (!has_attribute(node, "scales")) set_attribute(node, "scales", std::vector<float>{1, 1, height, width});
  return nullptr;
}

ir::Node* upsample_scales_to_input(PendingNode& node, std::string_view) {
  auto scales = take<std::vector<float>>(node, "scales");
  if (!scales) throw Error(ErrorCode::InvalidModel, "the attribute 'scales' is missing");
  set_floats_input(node, 1, *scales);
  return nullptr;
}

ir::Node* upsample_to_resize(PendingNode& node, std::string_view) {
  std::string mode = take<std::string>(node, "mode").value_or("nearest");
  set_attribute(node, "mode", mode == "bilinear" ? "linear" : mode);
  set_attribute(node, "nearest_mode", "floor");
  move_scales_behind_roi(node);
  node.op_type = "Resize";
  return nullptr;
}

ir::Node* resize_coordinates(PendingNode& node, std::string_view) {
  ir::Node* x = require_input(node, 0);
  ir::Node* scales = require_input(node, 1);
  move_scales_behind_roi(node);
  auto mode = std::ranges::find(node.attributes, "mode", &AttributeSet::Entry::first);
  if (mode != node.attributes.end() && !identical(mode->second, AttributeValue("nearest"))) return nullptr;

  bool enlarges = true, reduces = true;  // or might
  if (const Tensor* values = ir::constant_tensor(scales); values && values->dtype() == DType::F32) {
    enlarges = std::ranges::any_of(values->data<float>(), [](float scale) { return scale > 1; });
    reduces = std::ranges::any_of(values->data<float>(), [](float scale) { return scale < 1; });
  }
  if (enlarges && reduces) {
    // First along the axes that become larger, then along the others. They are independent.
    const Emitter& e = node.emitter;
    ir::Node* one = e.importer.module().scalar<float>(1);
    set_attribute(node, "nearest_mode", "floor");
    ir::Node* none = e.importer.module().none();
    node.inputs[0] = e.emit("Resize", {x, none, e.emit("Max", {scales, one})}, AttributeSet(node.attributes));
    node.inputs[2] = e.emit("Min", {scales, one});
    enlarges = false;
  }
  set_attribute(node, "nearest_mode", reduces && !enlarges ? "ceil" : "floor");
  return nullptr;
}

}  // namespace anfora::onnx::rewrites
