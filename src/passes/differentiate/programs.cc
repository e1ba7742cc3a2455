// What a program says of derivatives: Gradient takes them, CustomGradient gives them.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/clone.h"
#include "ir/queries.h"
#include "passes/differentiate/differentiation.h"

namespace anfora::passes::reverse {

using namespace ir;

// The body of the function with the gradients behind its results, as main has them, stands where the Gradient was: what it does not read of
// them is not there.
void Differentiation::replace(Apply& gradient) {
  Graph* function = constant_function(gradient.input(0));
  Graph* graph = module_.make_graph(fmt::format("{}.gradient", function->name()));
  Cloner cloner(module_);
  cloner.bind(function->value(), function->value());  // what recursion goes on with
  for (Parameter* p : function->parameters()) cloner.bind(p, module_.add_parameter(graph, p->type(), p->name()));
  module_.set_result(graph, cloner.splice(*function, graph));

  std::vector<size_t> by(static_cast<size_t>(gradient.attributes().require_int("count")));
  std::iota(by.begin(), by.end(), size_t{0});
  if (const Type* result = leaf_types(graph->result()->type())[0]; !is_float_tensor(result)) {
    refuse_gradient(gradient, fmt::format("the result is {}, and only floats have derivatives", to_string(result)));
  }
  module_.set_result(graph, build_.tuple(graph, with_gradients(*graph, 0, by)));
  std::vector<Node*> arguments;
  for (const Use& use : gradient.operands().subspan(1)) arguments.push_back(use.node);
  Apply* call = build_.call(gradient.graph(), graph->value(), arguments, gradient.location());
  call->set_type(graph->result()->type());
  module_.replace(&gradient, call);
  module_.erase(&gradient);
  const Apply* results = inline_call(module_, call, *graph)->as(Primitive::MakeTuple);
  std::vector<Apply*> items;
  for (const Use& use : results->uses()) {
    if (use.user->primitive() == Primitive::TupleGetItem) items.push_back(use.user);
  }
  for (Apply* item : items) {
    module_.replace(item, results->input(static_cast<size_t>(item->attributes().require_int("index"))));
    module_.erase(item);
  }
}

// The application stays for what differentiates its results again. The residuals are those of one more call, in which they are ordinary
// values, so that gradients of higher orders see how they depend on the arguments.
void Differentiation::visit_custom_gradient(Body& body, Apply& node, std::span<Node* const> leaves) {
  const auto count = static_cast<size_t>(node.attributes().require_int("count"));
  const auto arguments = node.operands().subspan(2);
  for (size_t i = count; i < arguments.size(); ++i) {
    if (!body.varied.contains(arguments[i].node)) continue;
    refuse_gradient(node,
                    "this function has a gradient of its own by its arguments, and the result depends on what it reads "
                    "from around it, too",
                    "pass that as an argument, or stop_gradient() of it");
  }
  std::vector<Node*> given;
  for (size_t i = 0; i < leaves.size(); ++i) {
    Node* result = build_.leaf_of(body.backward, &node, i);
    if (has_sensitivity(result->type())) given.push_back(leaves[i] ? leaves[i] : zero(body.backward, result));
  }
  if (const Type* results = constant_function(node.input(0))->result()->type(); results->is_tuple()) {
    std::vector<Node*> again;
    for (const Use& use : arguments) again.push_back(use.node);
    Apply* call = build_.call(body.forward, node.input(0), again, node.location());
    call->set_type(results);
    for (size_t i = node.num_outputs(); i < results->elements().size(); ++i)
      given.push_back(build_.item(body.forward, call, i));
  }
  const Type* returned_type = constant_function(node.input(1))->result()->type();
  Apply* returned = build_.call(body.backward, node.input(1), given, node.location());
  returned->set_type(returned_type);
  const std::vector<int64_t> by = node.attributes().get_ints("by");
  for (size_t k = 0; k < by.size(); ++k) {
    Node* sensitivity = returned_type->is_tuple() ? build_.item(body.backward, returned, k) : returned;
    add(body, arguments[static_cast<size_t>(by[k])].node, 0, sensitivity);
  }
}

}  // namespace anfora::passes::reverse
