// FlexAttention with graphs that modify scores and probabilities: an operator has no graph, so the attention is written
// out, with the modifiers read in their places.
//
//     scores = score_mod(scale · Q Kᵀ); Y = prob_mod(softmax(scores)) V
//
// A head of K and V serves a group of neighbouring heads of Q. The group is an axis of its own during the products, so
// that K and V need not be repeated: Q is [batch, kv heads, group, length, size], K and V have 1 for the group.
#include <fmt/format.h>

#include "frontend/onnx/importer.h"
#include "frontend/onnx/upgrade_rewrites.h"
#include "support/element_types.h"

namespace anfora::onnx {

ir::Node* Importer::import_flex_attention(PendingNode& node) {
  const Emitter& e = node.emitter;
  ir::Node* q = rewrites::require_input(node, 0);
  ir::Node* k = rewrites::require_input(node, 1);
  ir::Node* v = rewrites::require_input(node, 2);
  const ir::Type* type = known_type(q);
  if (!type || !type->is_tensor() || type->dtype() == DType::Undefined) {
    throw Error(ErrorCode::Unsupported, "FlexAttention of values whose element type is not known")
        .with_hint("declare the type of Q in the graph's value_info");
  }
  DType dtype = type->dtype();
  int64_t precision = rewrites::take<int64_t>(node, "softmax_precision")
                          .value_or(static_cast<int64_t>(dtype == DType::F64 ? DType::F64 : DType::F32));
  auto cast = [&](ir::Node* value, int64_t to) { return e.emit("Cast", {value}, {{"to", to}}); };
  auto sizes = [&](ir::Node* value, int64_t first, int64_t last) {
    return e.emit("Shape", {value}, {{"start", first}, {"end", last}});
  };
  auto shape = [&](std::initializer_list<ir::Node*> parts) { return e.emit("Concat", parts, {{"axis", int64_t{0}}}); };
  auto modify = [&](std::string_view name, ir::Node* value) -> ir::Node* {
    const FileAttribute* modifier = node.find_graph(name);
    if (!modifier) return value;
    GraphFields fields;
    fields.read(modifier->graph);
    std::vector<ir::Node*> results = import_graph(fields, e.graph, node.scope, {&value, 1}).nodes;
    if (results.size() != 1) {
      throw Error(ErrorCode::InvalidModel, fmt::format("the graph '{}' has {} outputs, not one", name, results.size()));
    }
    return results[0];
  };

  // The root of the scale goes to either factor, which keeps products of half precision in range.
  ir::Node* root = nullptr;
  if (auto scale = rewrites::take<float>(node, "scale")) {
    root = e.emit("Sqrt", {module_.scalar<float>(*scale)});
  } else {
    ir::Node* head_size = cast(e.emit("Squeeze", {sizes(q, 3, 4), e.ints({0})}), static_cast<int64_t>(DType::F32));
    root = e.emit("Sqrt", {e.emit("Reciprocal", {e.emit("Sqrt", {head_size})})});
  }
  root = cast(root, static_cast<int64_t>(dtype));

  ir::Node* grouped_q = e.emit("Reshape", {q, shape({sizes(k, 0, 2), e.ints({-1}), sizes(q, 2, 4)})});
  ir::Node* k_rows = e.emit("Transpose", {k}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
  ir::Node* grouped_k = e.emit("Unsqueeze", {k_rows, e.ints({2})});
  ir::Node* products = e.emit("MatMul", {e.emit("Mul", {grouped_q, root}), e.emit("Mul", {grouped_k, root})});
  ir::Node* scores = e.emit("Reshape", {products, shape({sizes(q, 0, 3), sizes(k, 2, 3)})});
  scores = modify("score_mod", cast(scores, precision));
  ir::Node* weights = modify("prob_mod", e.emit("Softmax", {scores}, {{"axis", int64_t{-1}}}));

  ir::Node* grouped_weights =
      e.emit("Reshape", {weights, shape({sizes(k, 0, 2), e.ints({-1}), sizes(q, 2, 3), sizes(k, 2, 3)})});
  ir::Node* grouped_v = e.emit("Unsqueeze", {cast(v, precision), e.ints({2})});
  ir::Node* means = e.emit("MatMul", {grouped_weights, grouped_v});
  ir::Node* y = e.emit("Reshape", {means, shape({sizes(q, 0, 3), sizes(v, 3, 4)})});
  return cast(y, static_cast<int64_t>(dtype));
}

}  // namespace anfora::onnx
