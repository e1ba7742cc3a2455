#include "passes/differentiate/builder.h"

#include "passes/differentiate/leaves.h"
#include "rewrite/expression.h"

namespace anfora::passes {

using namespace ir;

namespace {

// Elements of a constant that stands for a residual of another branch.
constexpr int64_t kMostPlaceholder = 64;

Shape placeholder_shape(const Type& type) {
  Shape shape;
  if (!type.has_rank()) return shape;
  for (Dim dim : type.dims()) shape.push_back(dim.as_constant().value_or(0));
  if (element_count(shape) > kMostPlaceholder) shape[0] = 0;
  return shape;
}

}  // namespace

std::vector<const Type*> types_of(std::span<Node* const> nodes) {
  std::vector<const Type*> types;
  for (const Node* node : nodes) types.push_back(node->type());
  return types;
}

Node* Builder::apply(Graph* graph, std::string_view op, std::initializer_list<Node*> inputs, const AttributeSet& attributes) {
  Apply* node = module_.apply(graph, module_.context().get_operator(op), inputs, attributes);
  inference_.infer(*node);
  return node;
}
Node* Builder::item(Graph* graph, Node* tuple, size_t i) {
  Node* made = module_.tuple_item(graph, tuple, i);
  const Type* type = tuple->type();
  if (!made->type() && type && type->is_tuple()) made->set_type(type->element(i));
  return made;
}
Node* Builder::tuple(Graph* graph, std::span<Node* const> items) {
  Apply* made = module_.make_tuple(graph, items);
  const auto types = types_of(items);
  if (!std::ranges::count(types, nullptr)) made->set_type(module_.context().tuple_type(types));
  return made;
}
Node* Builder::leaf_of(Graph* graph, Node* node, size_t leaf) {
  while (node->type() && node->type()->is_tuple()) {
    size_t i = 0;
    while (i + 1 < node->type()->elements().size() && offset_of(node->type(), i + 1) <= leaf) ++i;
    leaf -= offset_of(node->type(), i);
    node = item(graph, node, i);
  }
  return node;
}
Node* Builder::joined(Graph* graph, const Type* type, std::span<Node* const>& leaves) {
  if (!type || !type->is_tuple()) {
    Node* first = leaves.front();
    leaves = leaves.subspan(1);
    return first;
  }
  std::vector<Node*> items;
  for (const Type* element : type->elements()) items.push_back(joined(graph, element, leaves));
  return tuple(graph, items);
}
Node* Builder::filled_like(Graph* graph, Node* node, double number) {
  constexpr int64_t kOne[] = {1};
  const Tensor value = rewrite::scalar_of(node->type()->dtype(), number)->reshaped(kOne);
  return apply(graph, "ConstantOfShape", {apply(graph, "Shape", {node})}, {{"value", value}});
}

Apply* Builder::call(Graph* graph, Node* callee, std::span<Node* const> arguments, const Location* location) {
  Apply* made = module_.call(graph, callee, arguments);
  made->set_location(location);
  return made;
}
Node* Builder::empty(Graph* graph, const Type* type) {
  if (type->kind() == TypeKind::Sequence) return empty_sequence(graph, type->element());
  if (!type->is_tensor() || type->dtype() == DType::Undefined) return module_.none();
  return module_.constant(Tensor::zeros(type->dtype(), placeholder_shape(*type)));
}
const Type* Builder::or_empty(const Type* type) {
  if (!type || !type->is_tensor() || !type->has_rank()) return type;
  const Shape shape = placeholder_shape(*type);
  std::vector<Dim> dims(type->dims().begin(), type->dims().end());
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i].as_constant() != shape[i]) dims[i] = module_.context().dims().unknown();
  }
  return module_.context().tensor_type(type->dtype(), std::span<const Dim>(dims));
}
Node* Builder::empty_sequence(Graph* graph, const Type* element) {
  return apply(graph, "SequenceErase", {apply(graph, "SequenceConstruct", {empty(graph, element)})});
}

Graph* Builder::loop(Graph* header, Node* test, bool goes_on_when, Graph* again, std::span<Node* const> next, Graph* done) {
  module_.set_result(again, module_.call(again, header->value(), next));
  Node *yes = again->value(), *no = done->value();
  if (!goes_on_when) std::swap(yes, no);
  module_.set_result(header, module_.call(header, module_.make_switch(header, test, yes, no), {}));
  return header;
}

Graph* Builder::loop(Graph* header, Node* left, Graph* again, std::span<Node* const> next, Graph* done) {
  return loop(header, apply(header, "Greater", {left, module_.scalar<int64_t>(0)}), true, again, next, done);
}

}  // namespace anfora::passes
