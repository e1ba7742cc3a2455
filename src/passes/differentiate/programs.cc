// What a program says of derivatives: Gradient takes them, CustomGradient gives them.
#include <fmt/format.h>

#include <algorithm>

#include "ir/queries.h"
#include "passes/differentiate/differentiation.h"

namespace anfora::passes::reverse {

using namespace ir;

void Differentiation::replace(Apply& gradient) {
  Graph* graph = gradient.graph();
  Graph* function = constant_function(gradient.input(0));
  const auto count = static_cast<size_t>(gradient.attributes().require_int("count"));
  std::vector<Node*> arguments;
  for (const Use& use : gradient.operands().subspan(1)) arguments.push_back(use.node);
  Apply* call = build_.call(graph, function->value(), arguments, gradient.location());
  call->set_type(function->result()->type());

  Mask active(arguments.size());
  std::fill_n(active.begin(), count, true);
  Mask matters(leaf_types(call->type()).size());
  matters[0] = true;
  if (!is_float_tensor(leaf_types(call->type())[0])) {
    refuse_gradient(gradient,
                    fmt::format("the result is {}, and only floats have derivatives", to_string(call->type())));
  }
  const Pair& pair = pair_of({function}, active, matters, false);
  const Forward forward = call_forward(*call, pair);
  Node* ones = build_.filled_like(graph, build_.leaf_of(graph, forward.result, 0), 1);
  Node* returned = call_backward(graph, *call, pair, forward, {&ones, 1});

  std::vector<Node*> results;
  if (call->type()->is_tuple()) {
    for (size_t i = 0; i < call->type()->elements().size(); ++i)
      results.push_back(build_.item(graph, forward.result, i));
  } else {
    results.push_back(forward.result);
  }
  for (size_t i = 0; i < count; ++i) {
    const auto found = std::ranges::find(pair.results, Leaf{i, 0});
    const auto k = static_cast<size_t>(found - pair.results.begin());
    results.push_back(found == pair.results.end() ? zero(graph, arguments[i]) : build_.item(graph, returned, k));
  }
  module_.erase(call);
  module_.replace(&gradient, build_.tuple(graph, results));
  module_.erase(&gradient);
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
