// Operators of ONNX Runtime in those of ONNX: rules/contrib.rules, and what a line cannot say. See passes/expand.h.
#include "passes/expand.h"

#include <fmt/format.h>

#include <algorithm>

#include "passes/pass.h"
#include "rewrite/match.h"

namespace anfora::passes {

using namespace ir;

bool Expansion::is_typed() const {
  return std::ranges::all_of(root_.operands(), [](const Use& use) {
    const Type* type = use.node->type();
    return type && (type->is_none() || (type->is_tensor() && type->dtype() != DType::Undefined));
  });
}

Node* Expansion::input(size_t i) const {
  if (i >= root_.num_inputs()) return nullptr;
  const Value* value = root_.input(i)->as_value();
  return value && value->is_none() ? nullptr : root_.input(i);
}

int64_t Expansion::integer(std::string_view attribute) const {
  const AttributeValue* value = rewrite::attribute_or_default(root_, attribute);
  return value ? std::get<int64_t>(*value) : 0;
}
float Expansion::number(std::string_view attribute) const {
  const AttributeValue* value = rewrite::attribute_or_default(root_, attribute);
  return value ? std::get<float>(*value) : 0;
}

bool Expansion::is_used(size_t i) const {
  if (root_.num_outputs() == 1) return i == 0;
  return std::ranges::any_of(root_.uses(), [&](const Use& use) {
    const Apply* item = use.user->as(Primitive::TupleGetItem);
    return !item || item->attributes().get_int("index", 0) == static_cast<int64_t>(i);
  });
}

Apply* Expansion::apply_several(std::string_view op, Nodes inputs, size_t results, const AttributeSet& attributes) {
  boost::container::small_vector<Node*, 8> operands(inputs.begin(), inputs.end());
  while (!operands.empty() && !operands.back()) operands.pop_back();
  std::ranges::replace(operands, static_cast<Node*>(nullptr), static_cast<Node*>(rewriter_.module().none()));
  return rewriter_.apply(rewriter_.context().get_operator(op), {operands.data(), operands.size()}, attributes, results);
}
Node* Expansion::apply(std::string_view op, Nodes inputs, const AttributeSet& attributes) {
  return apply_several(op, inputs, 1, attributes);
}

Node* Expansion::item(Apply* several, size_t i) {
  Apply* item = rewriter_.module().tuple_item(root_.graph(), several, i)->as_apply();
  item->set_type(several->type()->element(i));
  return item;
}

Node* Expansion::integers(std::initializer_list<int64_t> values) {
  return rewriter_.integers({values.begin(), values.size()});
}

Node* Expansion::scalar_like(const Node* like, double number) {
  auto scalar = rewrite::scalar_of(like->type()->dtype(), number);
  return scalar ? rewriter_.constant(std::move(*scalar)) : nullptr;
}

std::vector<Node*> Expansion::split(Node* x, int64_t axis, Node* sizes, size_t count) {
  Apply* parts = apply_several("Split", {x, sizes}, count, {{"axis", axis}});
  std::vector<Node*> items;
  for (size_t i = 0; i < count; ++i) items.push_back(item(parts, i));
  return items;
}

Node* Expansion::split_heads(Node* x, int64_t heads) {
  const int64_t width = extent_of(x, 2);
  Node* parts = apply("Reshape", {x, integers({0, 0, heads, width > 0 ? width / heads : -1})});
  return apply("Transpose", {parts}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
}
Node* Expansion::joined_heads(Node* x) {
  const int64_t heads = extent_of(x, 1), size = extent_of(x, 3);
  Node* rows = apply("Transpose", {x}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  return apply("Reshape", {rows, integers({0, 0, heads > 0 && size > 0 ? heads * size : -1})});
}

Node* Expansion::extent(Node* x, int64_t axis) { return apply("Shape", {x}, {{"start", axis}, {"end", axis + 1}}); }

Node* Expansion::numbers_below(Node* size) {
  Node* last = apply("Squeeze", {size, integers({0})});
  return apply("Range", {scalar_like(size, 0), last, scalar_like(size, 1)});
}

Node* Expansion::sum(Node* x, Node* y) { return !x ? y : !y ? x : apply("Add", {x, y}); }

Node* Expansion::activation(std::string_view name, Node* x, std::optional<float> alpha, std::optional<float> beta) {
  if (name.empty()) return x;
  AttributeSet attributes;
  bool has_alpha = name == "LeakyRelu" || name == "Elu" || name == "HardSigmoid" || name == "ThresholdedRelu";
  if (has_alpha && alpha) attributes = attributes.with("alpha", *alpha);
  if (name == "HardSigmoid" && beta) attributes = attributes.with("beta", *beta);
  static constexpr std::string_view kPlain[] = {"Relu", "Sigmoid", "Tanh", "Softplus", "Softsign", "HardSwish"};
  if (name == "Clip") {  // its bounds
    if (!alpha || !beta) return nullptr;
    return apply("Clip", {x, scalar_like(x, *alpha), scalar_like(x, *beta)});
  }
  if (!has_alpha && !std::ranges::count(kPlain, name)) return nullptr;
  return apply(name, {x}, attributes);
}

Node* Expansion::fused_convolution(Node* weights) {
  const std::vector<float> given = root_.attributes().get_floats("activation_params");
  auto parameter = [&](size_t i) { return i < given.size() ? std::optional(given[i]) : std::nullopt; };
  Node* y = apply("Conv", {input(0), weights, input(2)},
                  root_.attributes().without("activation").without("activation_params"));
  return activation(root_.attributes().get_string("activation", ""), sum(y, input(3)), parameter(0), parameter(1));
}

Node* Expansion::result(Nodes results) {
  Node* first = *results.begin();
  if (!first) return nullptr;
  if (root_.num_outputs() == 1) return first;
  boost::container::small_vector<Node*, 4> items(results.begin(), results.end());
  items.resize(root_.num_outputs(), first);
  std::ranges::replace(items, static_cast<Node*>(nullptr), first);  // nobody asks for these
  Apply* tuple = rewriter_.module().make_tuple(root_.graph(), {items.data(), items.size()});
  boost::container::small_vector<const Type*, 4> types;
  for (const Node* node : items) types.push_back(node->type());
  tuple->set_type(rewriter_.context().tuple_type({types.data(), types.size()}));
  return tuple;
}

namespace {

// Nothing else says what these operators mean, so that it is no question of rounding whether they are expanded.
size_t run_expand(PassContext& context) {
  rewrite::RuleSet rules(context.module.context());
  add_expansions(rules);
  return rewrite::apply_rules(rules, {.fuel = context.options.fuel, .define_roots = true}, context.inference,
                              context.remarks, kExpand.name);
}

}  // namespace

void add_expansions(rewrite::RuleSet& rules) {
  for (const rewrite::RuleFile& file : rewrite::rule_files()) {
    if (file.name == kExpansionRules) rules.read(file.text, fmt::format("rules/{}", file.name));
  }
  rules.add(attention_expansions());
  rules.add(grouped_attention_expansions());
  rules.add(normalization_expansions());
  rules.add(product_expansions());
  rules.add(nchwc_expansions());
  rules.add(quantized_expansions());
}

const Pass kExpand{"expand", "operators of ONNX Runtime", "expand com.microsoft operators into ONNX operators",
                   run_expand};

}  // namespace anfora::passes
