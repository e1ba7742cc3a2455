// Operators that the first versions had as experiments and that no specification has now.
#include <fmt/format.h>

#include "frontend/onnx/upgrade_rewrites.h"
#include "support/element_types.h"

namespace anfora::onnx::rewrites {
namespace {

ir::Node* times(const PendingNode& node, ir::Node* x, float factor) {
  return factor == 1 ? x : node.emitter.emit("Mul", {x, scalar_like(node, factor, x)});
}

// An application, also where nothing is left to compute: a result is a value of its own.
ir::Node* finished(const PendingNode& node, ir::Node* value) {
  return value == node.inputs[0] ? node.emitter.emit("Identity", {value}) : value;
}

}  // namespace

// alpha · x + beta
ir::Node* affine(PendingNode& node, std::string_view) {
  ir::Node* x = require_input(node, 0);
  float alpha = take<float>(node, "alpha").value_or(1), beta = take<float>(node, "beta").value_or(0);
  return node.emitter.emit("Add", {times(node, x, alpha), scalar_like(node, beta, x)});
}

ir::Node* scale(PendingNode& node, std::string_view) {
  return finished(node, times(node, require_input(node, 0), take<float>(node, "scale").value_or(1)));
}

// alpha · tanh(beta · x)
ir::Node* scaled_tanh(PendingNode& node, std::string_view) {
  float alpha = take<float>(node, "alpha").value_or(1), beta = take<float>(node, "beta").value_or(1);
  return times(node, node.emitter.emit("Tanh", {times(node, require_input(node, 0), beta)}), alpha);
}

// alpha · log(1 + exp(beta · x))
ir::Node* parametric_softplus(PendingNode& node, std::string_view) {
  float alpha = take<float>(node, "alpha").value_or(1), beta = take<float>(node, "beta").value_or(1);
  return times(node, node.emitter.emit("Softplus", {times(node, require_input(node, 0), beta)}), alpha);
}

// scale · x + bias, the bias by channel
ir::Node* image_scaler(PendingNode& node, std::string_view) {
  ir::Node* x = require_input(node, 0);
  ir::Node* scaled = times(node, x, take<float>(node, "scale").value_or(1));
  auto bias = take<std::vector<float>>(node, "bias");
  if (!bias) return finished(node, scaled);
  const int64_t shape[] = {static_cast<int64_t>(bias->size()), 1, 1};
  ir::Node* by_channel = node.emitter.importer.module().constant(Tensor::from<float>(shape, *bias));
  return node.emitter.emit("Add", {scaled, node.emitter.emit("CastLike", {by_channel, x})});
}

// Images without their borders (left, top, right, bottom), or of a given height and width from (left, top) on.
ir::Node* crop(PendingNode& node, std::string_view) {
  auto border = take<std::vector<int64_t>>(node, "border");
  auto size = take<std::vector<int64_t>>(node, "scale");
  if (!border || border->size() != 4 || (size && size->size() != 2)) {
    throw Error(ErrorCode::InvalidModel,
                "the attribute 'border' is missing, or it or 'scale' has another length than it must");
  }
  const Emitter& e = node.emitter;
  ir::Node* x = require_input(node, 0);
  int64_t left = (*border)[0], top = (*border)[1], right = (*border)[2], bottom = (*border)[3];
  ir::Node* ends = nullptr;
  if (size) {
    ends = e.ints({top + (*size)[0], left + (*size)[1]});
  } else {
    ends = e.emit("Sub", {e.emit("Shape", {x}, {{"start", int64_t{2}}}), e.ints({bottom, right})});
  }
  return e.emit("Slice", {x, e.ints({top, left}), ends, e.ints({2, 3})});
}

ir::Node* dynamic_slice(PendingNode& node, std::string_view) {
  node.op_type = "Slice";
  return nullptr;
}

// A value in the shape of an attribute, of the input's elements, or of the input itself, with more axes behind.
ir::Node* constant_fill(PendingNode& node, std::string_view) {
  const Emitter& e = node.emitter;
  ir::Node* shape = nullptr;
  if (node.has_input(0)) {
    bool is_shape = take<int64_t>(node, "input_as_shape").value_or(0) != 0;
    shape = is_shape ? e.emit("Cast", {node.inputs[0]}, {{"to", static_cast<int64_t>(DType::I64)}})
                     : e.emit("Shape", {node.inputs[0]});
    if (auto extra = take<std::vector<int64_t>>(node, "extra_shape"); extra && !extra->empty()) {
      shape = e.emit("Concat", {shape, e.ints(*extra)}, {{"axis", int64_t{0}}});
    }
  } else {
    shape = e.ints(take<std::vector<int64_t>>(node, "shape").value_or(std::vector<int64_t>()));
  }
  ir::Node* value = e.importer.module().scalar<float>(take<float>(node, "value").value_or(0));
  int64_t dtype = take<int64_t>(node, "dtype").value_or(static_cast<int64_t>(DType::F32));
  return e.emit("Expand", {e.emit("Cast", {value}, {{"to", dtype}}), shape});
}

// Before ONNX had the operator, ONNX Runtime's; its result is of the scale's type.
ir::Node* layer_norm_of_two_types(PendingNode& node, std::string_view) {
  ir::Node* x = require_input(node, 0);
  ir::Node* by = require_input(node, 1);
  const ir::Type* x_type = node.emitter.importer.known_type(x);
  const ir::Type* by_type = node.emitter.importer.known_type(by);
  bool are_tensors = x_type && x_type->is_tensor() && by_type && by_type->is_tensor();
  if (are_tensors && x_type->dtype() != by_type->dtype()) node.inputs[0] = node.emitter.emit("CastLike", {x, by});
  return nullptr;
}

// Each image by itself, its channels together or each by itself; the variance may be left as it is.
ir::Node* mean_variance_by_channel(PendingNode& node, std::string_view) {
  bool across_channels = take<int64_t>(node, "across_channels").value_or(0) != 0;
  bool scales = take<int64_t>(node, "normalize_variance").value_or(1) != 0;
  std::vector<int64_t> axes = across_channels ? std::vector<int64_t>{1, 2, 3} : std::vector<int64_t>{2, 3};
  if (scales) {
    set_attribute(node, "axes", std::move(axes));
    return nullptr;
  }
  const Emitter& e = node.emitter;
  ir::Node* x = require_input(node, 0);
  return e.emit("Sub", {x, e.emit("ReduceMean", {x, e.ints(axes)})});
}

}  // namespace anfora::onnx::rewrites
