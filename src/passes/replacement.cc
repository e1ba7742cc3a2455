#include "passes/replacement.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>

#include "rewrite/match.h"

namespace anfora::passes {

using namespace ir;

bool is_typed(const Apply& node) {
  return std::ranges::all_of(node.operands(), [](const Use& use) {
    const Type* type = use.node->type();
    return type && (type->is_none() || (type->is_tensor() && type->dtype() != DType::Undefined));
  });
}

bool is_result_used(const Apply& node, size_t i) {
  if (node.num_outputs() == 1) return i == 0;
  return std::ranges::any_of(node.uses(), [&](const Use& use) {
    const Apply* item = use.user->as(Primitive::TupleGetItem);
    return !item || item->attributes().get_int("index", 0) == static_cast<int64_t>(i);
  });
}

Node* Replacement::input(size_t i) const {
  if (i >= root_.num_inputs()) return nullptr;
  const Value* value = root_.input(i)->as_value();
  return value && value->is_none() ? nullptr : root_.input(i);
}

int64_t Replacement::integer(std::string_view attribute) const {
  const AttributeValue* value = attribute_or_default(root_, attribute);
  return value ? std::get<int64_t>(*value) : 0;
}
float Replacement::number(std::string_view attribute) const {
  const AttributeValue* value = attribute_or_default(root_, attribute);
  return value ? std::get<float>(*value) : 0;
}

Node* Replacement::apply(std::string_view op, Nodes inputs, const AttributeSet& attributes) {
  boost::container::small_vector<Node*, 8> operands(inputs.begin(), inputs.end());
  while (!operands.empty() && !operands.back()) operands.pop_back();
  std::ranges::replace(operands, static_cast<Node*>(nullptr), static_cast<Node*>(rewriter_.module().none()));
  return rewriter_.apply(rewriter_.context().get_operator(op), {operands.data(), operands.size()}, attributes);
}

Node* Replacement::integers(std::initializer_list<int64_t> values) {
  return rewriter_.integers({values.begin(), values.size()});
}

Node* Replacement::scalar_like(const Node* like, double number) {
  auto scalar = rewrite::scalar_of(like->type()->dtype(), number);
  return scalar ? rewriter_.constant(std::move(*scalar)) : nullptr;
}

Node* Replacement::split_heads(Node* x, int64_t heads) {
  const int64_t width = extent_of(x, 2);
  Node* parts = apply("Reshape", {x, integers({0, 0, heads, width > 0 ? width / heads : -1})});
  return apply("Transpose", {parts}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
}
Node* Replacement::joined_heads(Node* x) {
  const int64_t heads = extent_of(x, 1), size = extent_of(x, 3);
  Node* rows = apply("Transpose", {x}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  return apply("Reshape", {rows, integers({0, 0, heads > 0 && size > 0 ? heads * size : -1})});
}

}  // namespace anfora::passes
