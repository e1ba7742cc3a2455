#include "ir/builder.h"

#include <fmt/format.h>

#include <algorithm>

#include "anfora/error.h"
#include "ir/parse.h"

namespace anfora::ir {

Graph* make_operator_function(Module& module, const Operator& op, const AttributeSet& attributes) {
  if (std::ranges::count(op.inputs, Formal::Arity::Variadic, &Formal::arity) || !op.known) {
    throw Error(ErrorCode::InvalidModel, fmt::format("{} takes any number of operands, and is no value", op.qualified))
        .with_hint("write a function with the operands that it is to take");
  }
  Graph* function = module.make_graph(fmt::format("apply.{}", op.name));
  std::vector<Node*> operands;
  for (const Formal& input : op.inputs) {
    if (input.arity == Formal::Arity::Required) operands.push_back(module.add_parameter(function, nullptr, input.name));
  }
  const size_t results = static_cast<size_t>(std::ranges::count(op.outputs, Formal::Arity::Required, &Formal::arity));
  module.set_result(function, module.apply(function, op, operands, attributes, std::max<size_t>(results, 1)));
  return function;
}

static std::span<Node* const> span_of(std::initializer_list<Node*> nodes) { return {nodes.begin(), nodes.size()}; }

Builder::Builder(Module& module, std::string_view name) : graph_(module.make_graph(name)) {
  if (!module.main()) module.set_main(graph_);
}

Parameter* Builder::parameter(std::string_view type, std::string_view name) {
  return module().add_parameter(graph_, parse_type(context(), type), name);
}

Builder Builder::function(std::string_view name) { return Builder(*module().make_graph(name, graph_)); }

Apply* Builder::operator()(std::string_view op, std::initializer_list<Node*> inputs,
                           std::initializer_list<NamedAttribute> attributes, size_t num_outputs) {
  std::vector<AttributeSet::Entry> entries;
  for (const NamedAttribute& attribute : attributes) entries.push_back(attribute.entry);
  return module().apply(graph_, context().get_operator(op), span_of(inputs), AttributeSet(std::move(entries)),
                        num_outputs);
}

Apply* Builder::call(Node* function, std::initializer_list<Node*> arguments) {
  return module().call(graph_, function, span_of(arguments));
}

Apply* Builder::choose(Node* condition, const Builder& if_true, const Builder& if_false) {
  return module().make_switch(graph_, condition, if_true.value(), if_false.value());
}

Apply* Builder::tuple(std::initializer_list<Node*> items) { return module().make_tuple(graph_, span_of(items)); }

}  // namespace anfora::ir
