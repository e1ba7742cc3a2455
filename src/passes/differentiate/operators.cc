#include "passes/differentiate/differentiation.h"

#include <fmt/format.h>

#include <algorithm>

#include "anfora/error.h"
#include "ir/clone.h"
#include "ir/order.h"
#include "passes/insert_function.h"
#include "rewrite/instantiate.h"

namespace anfora::passes::reverse {

using namespace ir;

namespace {

bool has_no_derivative(const Node* node) { return node->as_value() && node->as_value()->is_none(); }

}  // namespace

void require_sensitivities(const Apply& call, const Mask& active) {
  for (size_t i = 0; i < active.size(); ++i) {
    for (const Type* leaf : leaf_types(call.input(i + 1)->type())) {
      if (active[i] && holds_floats(leaf) && !has_sensitivity(leaf)) {
        refuse_gradient(call, fmt::format("there are no gradients by values of the type {}", to_string(leaf)));
      }
    }
  }
}

void refuse_gradient(const Apply& node, std::string why, std::string hint) {
  Error error(ErrorCode::Unsupported, std::move(why));
  error.at_node(describe(node));
  if (node.location()) error.at_location(to_string(*node.location()));
  if (!hint.empty()) error.with_hint(std::move(hint));
  throw error;
}

// Sensitivities --------------------------------------------------------------------------------------------------------

void Differentiation::add(Body& body, Node* node, size_t leaf, Node* sensitivity) {
  if (!sensitivity || has_no_derivative(sensitivity) || !body.varied.contains(node)) return;
  auto& leaves = body.sensitivities[node];
  if (leaves.empty()) leaves.resize(leaf_types(node->type()).size());
  leaves[leaf] = leaves[leaf] ? sum(body.backward, leaves[leaf], sensitivity) : sensitivity;
}
Node* Differentiation::sensitivity(const Body& body, const Node* node, size_t leaf) const {
  auto found = body.sensitivities.find(node);
  return found == body.sensitivities.end() ? nullptr : found->second[leaf];
}
Node* Differentiation::sensitivity_or_zero(Body& body, Node* node, size_t leaf) {
  if (Node* known = sensitivity(body, node, leaf)) return known;
  return zero(body.backward, build_.leaf_of(body.forward, node, leaf));
}

Node* Differentiation::sum(Graph* graph, Node* a, Node* b) {
  if (a->type()->is_tensor()) return build_.apply(graph, "Add", {a, b});
  Graph* of_items = module_.make_graph("sum_of_items");
  Node *x = module_.add_parameter(of_items, a->type()->element()), *y = module_.add_parameter(of_items, a->type()->element());
  module_.set_result(of_items, sum(of_items, x, y));
  Node* sequences[] = {a, b};
  return item_by_item(graph, "sum_of_sequences", sequences, of_items);
}
Node* Differentiation::zero(Graph* graph, Node* node) {
  if (node->type()->is_tensor()) return build_.filled_like(graph, node, 0);
  Graph* of_items = module_.make_graph("zeros_of_item");
  Node* x = module_.add_parameter(of_items, node->type()->element());
  module_.set_result(of_items, zero(of_items, x));
  return item_by_item(graph, "zeros_of_sequence", {&node, 1}, of_items);
}

// A function of the library that goes over sequences of the same type, and makes another one.
Node* Differentiation::item_by_item(Graph* graph, std::string_view function, std::span<Node* const> sequences, Graph* of_items) {
  const Type* type = sequences[0]->type();
  std::vector<Node*> arguments(sequences.begin(), sequences.end());
  arguments.insert(arguments.end(), {module_.scalar<int64_t>(0), build_.empty_sequence(graph, type->element()), of_items->value()});
  Apply* made = build_.call(graph, import(module_, *library_.find(function))->value(), arguments, nullptr);
  made->set_type(type);
  return made;
}

// What depends on what is differentiated by ----------------------------------------------------------------------------

// Whether the gradient gives a sensitivity of an operand. Where there is none, the walk will say so.
bool Differentiation::has_derivative(const Apply& node, size_t operand) const {
  const Graph* function = library_.find(node.op());
  if (!function || library_.meaning(node.op())) return true;
  const Node* result = function->result();
  if (const Apply* items = result->as(Primitive::MakeTuple)) result = items->input(std::min(operand, items->num_inputs() - 1));
  return !has_no_derivative(result);
}
bool Differentiation::depends(const Body& body, const Apply& node) const {
  if (!holds_floats(node.type())) return false;
  for (const Use& use : node.operands()) {
    if (!body.varied.contains(use.node)) continue;
    if (node.primitive() != Primitive::Operation || has_derivative(node, use.index())) return true;
  }
  return false;
}

// Finds what varies. Before, operators are replaced whose gradient is that of others: by what they mean, and of any number of operands by
// those of two.
void Differentiation::prepare(Body& body) {
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (Apply* node : topological_order(*body.forward)) {
      if (!depends(body, *node)) continue;
      if (node->primitive() == Primitive::Operation && simplify(*node)) {
        is_changed = true;
      } else {
        body.varied.insert(node);
      }
    }
  }
}

bool Differentiation::simplify(Apply& node) {
  const Graph* function = library_.find(node.op());
  if (!function) return false;
  const auto& inputs = node.op().inputs;
  Node* simpler = nullptr;
  if (library_.meaning(node.op())) {
    simpler = meaning_of(node, *function);
  } else if (node.type()->kind() == TypeKind::Sequence && inputs.back().arity == Formal::Arity::Variadic) {
    simpler = build_.empty_sequence(node.graph(), node.type()->element());
    for (const Use& use : node.operands()) simpler = build_.apply(node.graph(), "SequenceInsert", {simpler, use.node});
  } else if (inputs.back().arity == Formal::Arity::Variadic && inputs.size() == 1 && node.num_inputs() != 2) {
    simpler = node.input(0);
    for (size_t i = 1; i < node.num_inputs(); ++i) {
      Node* operands[] = {simpler, node.input(i)};
      Apply* made = module_.apply_interned(node.graph(), node.op(), operands, &node.attributes(), 1, node.location());
      context_.inference.infer(*made);
      simpler = made;
    }
  }
  if (!simpler) return false;
  module_.replace(&node, simpler);
  module_.erase(&node);
  return true;
}

Node* Differentiation::meaning_of(Apply& node, const Graph& function) {
  rewriter_.set_root(node);
  try {
    rewrite::Instance instance(library_, rewriter_, function, node.attributes());
    std::vector<Node*> results(node.num_outputs());
    for (size_t i = 0; i < results.size(); ++i) results[i] = is_result_used(node, i) ? instance.result(i) : module_.none();
    return results.size() == 1 ? results[0] : rewriter_.tuple(results);
  } catch (const rewrite::Refusal& refusal) {
    refuse_gradient(node, fmt::format("{} has no gradient here: {}", node.op().qualified, refusal.why));
  }
}

// The walk -------------------------------------------------------------------------------------------------------------

void Differentiation::walk(Body& body) {
  const auto order = topological_order(*body.forward);
  for (size_t i = order.size(); i-- > 0;) {
    if (order[i]->is_erased()) continue;
    settle(body, order[i]);
    visit(body, *order[i]);
  }
  for (Parameter* p : body.forward->parameters()) settle(body, p);
}

void Differentiation::visit(Body& body, Apply& node) {
  auto found = body.sensitivities.find(&node);
  if (found == body.sensitivities.end()) return;
  const std::vector<Node*> leaves = found->second;
  switch (node.primitive()) {
    case Primitive::MakeTuple:
      for (size_t i = 0; i < node.num_inputs(); ++i) {
        const size_t offset = offset_of(node.type(), i), count = leaf_types(node.input(i)->type()).size();
        for (size_t k = 0; k < count; ++k) add(body, node.input(i), k, leaves[offset + k]);
      }
      return;
    case Primitive::TupleGetItem: {
      const size_t offset = offset_of(node.input(0)->type(), static_cast<size_t>(node.attributes().require_int("index")));
      for (size_t k = 0; k < leaves.size(); ++k) add(body, node.input(0), offset + k, leaves[k]);
      return;
    }
    case Primitive::Call: return visit_call(body, node, leaves);
    case Primitive::Operation:
      return node.is("CustomGradient") ? visit_custom_gradient(body, node, leaves) : visit_operation(body, node);
    default: return;
  }
}

// All users of the node are visited: what is left are updates.
void Differentiation::settle(Body& body, Node* node) {
  auto found = body.updates.find(node);
  if (found == body.updates.end()) return;
  for (Apply* user : std::exchange(found->second, {})) {
    apply_gradient(body, *user, *library_.find(user->op()), sensitivity_or_zero(body, node, 0));
  }
}

void Differentiation::visit_operation(Body& body, Apply& node) {
  const Graph* function = library_.find(node.op());
  if (!function) refuse_gradient(node, fmt::format("{} has no gradient", node.op().qualified), "docs/ops.md lists what has one");
  if (Library::is_update(node.op(), *function)) {
    if (body.varied.contains(node.input(0))) body.updates[node.input(0)].push_back(&node);
  } else {
    apply_gradient(body, node, *function, nullptr);
  }
}

// `so_far`: the sensitivity of the first operand where the gradient updates it; else null.
void Differentiation::apply_gradient(Body& body, Apply& node, const Graph& function, Node* so_far) {
  const std::vector<Node*> leaves = body.sensitivities.at(&node);
  const Operator& op = node.op();
  // The gradient takes the place of a copy of the node in the backward graph, whose operands it reads.
  std::vector<Node*> arguments;
  for (const Use& use : node.operands()) arguments.push_back(use.node);
  Apply* place = copy_of(module_, node, body.backward, arguments);
  const size_t num_operands = function.parameters().size() - 2 * op.outputs.size() - (so_far ? 1 : 0);
  arguments.resize(num_operands, module_.none());
  add_results(body, node, leaves, arguments);
  if (so_far) arguments.push_back(so_far);
  rewriter_.set_root(*place);
  std::vector<std::pair<size_t, Node*>> made;  // by operand
  try {
    rewrite::Instance gradient(rewriter_, function, arguments, *this);
    for (size_t i = 0; i < std::min(num_operands, node.num_inputs()); ++i) {
      if (body.varied.contains(node.input(i)) && has_derivative(node, i))
        made.emplace_back(i, num_operands == 1 ? gradient.value() : gradient.item(i));
    }
  } catch (const rewrite::Refusal& refusal) {
    module_.erase(place);
    if (Apply* whole = with_all_results(body, node)) return apply_gradient(body, *whole, function, so_far);
    refuse_gradient(node, fmt::format("{} has no gradient here: {}", op.qualified, refusal.why));
  }
  module_.erase(place);
  for (auto [i, sensitivity] : made) {
    // More is known of it than inference finds where it is a sequence.
    if (sensitivity->is_apply() && !node.input(i)->type()->is_tensor()) sensitivity->set_type(node.input(i)->type());
    if (so_far && i == 0) {
      body.sensitivities[node.input(0)] = {sensitivity};
    } else {
      add(body, node.input(i), 0, sensitivity);
    }
  }
}

// Puts the application with all results in the place of one that leaves some out, which its gradient may read: the mask of a Dropout. Null:
// it has them.
Apply* Differentiation::with_all_results(Body& body, Apply& node) {
  const auto& outputs = node.op().outputs;
  if (node.num_outputs() == outputs.size() || outputs.back().arity == Formal::Arity::Variadic) return nullptr;
  std::vector<Node*> operands;
  for (const Use& use : node.operands()) operands.push_back(use.node);
  Apply* whole = module_.apply_interned(node.graph(), node.op(), operands, &node.attributes(), outputs.size(), node.location());
  context_.inference.infer(*whole);
  std::vector<Node*> leaves = body.sensitivities.at(&node);
  leaves.resize(outputs.size());
  body.sensitivities[whole] = std::move(leaves);
  Node* same = node.num_outputs() == 1 ? build_.item(node.graph(), whole, 0) : whole;
  body.varied.insert(whole);
  body.varied.insert(same);
  module_.replace(&node, same);
  module_.erase(&node);
  return whole;
}

// The results of an operator, then the sensitivities.
void Differentiation::add_results(Body& body, Apply& node, std::span<Node* const> leaves, std::vector<Node*>& arguments) {
  const auto& outputs = node.op().outputs;
  if (outputs.back().arity == Formal::Arity::Variadic) {
    std::vector<Node*> all;
    for (size_t i = 0; i < leaves.size(); ++i) {
      all.push_back(leaves[i] ? leaves[i] : zero(body.backward, build_.leaf_of(body.backward, &node, i)));
    }
    arguments.push_back(&node);
    arguments.push_back(leaves.size() == 1 ? all[0] : build_.tuple(body.backward, all));
    return;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool is_there = i < node.num_outputs();
    arguments.push_back(!is_there ? module_.none() : node.num_outputs() == 1 ? &node : build_.item(body.backward, &node, i));
  }
  for (size_t i = 0; i < outputs.size(); ++i) arguments.push_back(i < leaves.size() && leaves[i] ? leaves[i] : module_.none());
}

}  // namespace anfora::passes::reverse
