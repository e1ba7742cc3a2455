#include "passes/differentiate/differentiation.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/clone.h"
#include "ir/queries.h"

namespace anfora::passes::reverse {

using namespace ir;

void Differentiation::visit_call(Body& body, Apply& node, std::span<Node* const> leaves) {
  const analysis::Callees callees = analysis::known_callees(node);
  if (callees.empty()) {
    refuse_gradient(node, "the functions that are called here are not known before the run");
  }
  if (auto loop = loop_of(callees, calls_)) return visit_loop(body, node, *loop, leaves);
  Mask active;
  for (size_t i = 1; i < node.num_inputs(); ++i) active.push_back(body.varied.contains(node.input(i)));
  require_sensitivities(node, active);
  Mask matters;
  std::vector<Node*> sensitivities;
  for (Node* leaf : leaves) {
    matters.push_back(leaf != nullptr);
    if (leaf) sensitivities.push_back(leaf);
  }
  const Pair& pair = pair_of({callees.begin(), callees.end()}, active, matters, false);
  const Forward forward = call_forward(node, pair);
  Node* returned = call_backward(body.backward, node, pair, forward, sensitivities);
  for (size_t k = 0; k < pair.results.size(); ++k) {
    add(body, node.input(pair.results[k].value + 1), pair.results[k].leaf, build_.item(body.backward, returned, k));
  }
  module_.replace(&node, forward.result);
  module_.erase(&node);
}

const Type* Differentiation::type_of_results(const Pair& pair, const Apply& node) {
  std::vector<const Type*> types;
  for (Leaf leaf : pair.results) types.push_back(leaf_types(node.input(leaf.value + 1)->type())[leaf.leaf]);
  return pair.is_single() ? types[0] : module_.context().tuple_type(types);
}

// One of the functions, as the call chooses.
Node* Differentiation::chosen(Graph* graph, const Apply& node, std::span<Graph* const> functions) {
  if (functions.size() == 1) return functions[0]->value();
  return module_.make_switch(graph, node.input(0)->as_apply()->input(0), functions[0]->value(), functions[1]->value());
}

// The call with the forward functions in place of its own.
Differentiation::Forward Differentiation::call_forward(const Apply& node, const Pair& pair) {
  Graph* graph = node.graph();
  std::vector<Node*> arguments;
  for (size_t i = 1; i < node.num_inputs(); ++i) arguments.push_back(node.input(i));
  Apply* made = build_.call(graph, chosen(graph, node, pair.forward), arguments, node.location());
  Forward forward{.result = module_.tuple_item(graph, made, 0), .closure = nullptr, .residuals = {}};
  forward.result->set_type(node.type());
  if (pair.is_closure) forward.closure = module_.tuple_item(graph, made, 1);
  for (size_t i = 0; i < pair.residuals.size(); ++i) {
    forward.residuals.push_back(module_.tuple_item(graph, made, i + 1));
    forward.residuals.back()->set_type(pair.residuals[i]);
  }
  return forward;
}

Node* Differentiation::call_backward(Graph* graph, const Apply& node, const Pair& pair, const Forward& forward,
                                     std::span<Node* const> sensitivities) {
  Node* backward = forward.closure;
  std::vector<Node*> arguments;
  if (!pair.is_closure) {
    backward = chosen(graph, node, pair.backward);
    // What is not read is not handed over: a token is the forward call's alone (invariant 18).
    for (size_t i = 0; i < pair.reads.size(); ++i) arguments.push_back(pair.reads[i] ? node.input(i + 1) : module_.none());
    arguments.insert(arguments.end(), forward.residuals.begin(), forward.residuals.end());
  }
  arguments.insert(arguments.end(), sensitivities.begin(), sensitivities.end());
  Apply* returned = build_.call(graph, backward, arguments, node.location());
  returned->set_type(type_of_results(pair, node));
  if (!pair.is_single()) return returned;
  Node* only[] = {returned};
  return build_.tuple(graph, only);
}

// Functions ------------------------------------------------------------------------------------------------------------

// `is_complete`: sensitivities of all arguments that matter are returned, zeros where there are none.
const Pair& Differentiation::pair_of(std::vector<Graph*> callees, const Mask& active, const Mask& matters, bool is_complete) {
  auto [entry, is_new] = pairs_.try_emplace({callees, active, matters, is_complete});
  Pair& pair = entry->second;
  if (is_new) make_pair(pair, callees, active, matters, is_complete);
  return pair;
}

void Differentiation::make_pair(Pair& pair, std::span<Graph* const> callees, const Mask& active, const Mask& matters, bool is_complete) {
  pair.is_closure = std::ranges::any_of(callees, [&](const Graph* g) { return calls_.is_recursive(g); });
  for (const Graph* callee : callees) {
    Graph* forward = module_.make_graph(fmt::format("{}.forward", callee->name()));
    for (const Parameter* p : callee->parameters()) module_.add_parameter(forward, p->type(), p->name());
    pair.forward.push_back(forward);
  }
  if (pair.is_closure || is_complete) pair.results = leaves_of(*callees[0], active);
  std::vector<Body> bodies;
  for (size_t i = 0; i < callees.size(); ++i) bodies.push_back(differentiated(*callees[i], pair.forward[i], active, matters));
  if (!pair.is_closure && !is_complete) {
    for (Leaf leaf : leaves_of(*callees[0], active)) {
      const bool is_there = std::ranges::any_of(bodies, [&](const Body& b) { return sensitivity(b, b.forward->parameter(leaf.value), leaf.leaf); });
      if (is_there) pair.results.push_back(leaf);
    }
  }
  for (Body& body : bodies) {
    std::vector<Node*> results;
    for (Leaf leaf : pair.results) results.push_back(sensitivity_or_zero(body, body.forward->parameter(leaf.value), leaf.leaf));
    module_.set_result(body.backward, build_.tuple(body.backward, results));
    // A loop passes on what stays the same once, and computes counters.
    Mask is_free(active.size(), !pair.is_closure);
    for (size_t i = 0; is_complete && i < is_free.size(); ++i) {
      const Parameter& parameter = *body.forward->parameter(i);
      is_free[i] = body.forward->result()->as_apply()->input(i) == &parameter || increment_of(*body.forward, parameter) != 0;
    }
    choose_residuals(body, is_free, is_complete || pair.is_closure);
  }
  if (!pair.is_closure) lift_backward(pair, bodies);
  if (pair.is_closure) {
    for (Body& body : bodies) {
      if (pair.is_single()) module_.set_result(body.backward, body.backward->result()->as_apply()->input(0));
      Node* items[] = {body.forward->result(), body.backward->value()};
      module_.set_result(body.forward, module_.make_tuple(body.forward, items));
      pair.backward.push_back(body.backward);
    }
  }
}

std::vector<Leaf> leaves_of(const Graph& function, const Mask& active) {
  std::vector<Leaf> leaves;
  for (const Parameter* p : function.parameters()) {
    const auto types = leaf_types(p->type());
    for (size_t k = 0; active[p->index()] && k < types.size(); ++k) {
      if (has_sensitivity(types[k])) leaves.push_back({p->index(), k});
    }
  }
  return leaves;
}

// A copy of the function with its backward function nested in it, whose result is still to be set.
Body Differentiation::differentiated(const Graph& function, Graph* forward, const Mask& active, const Mask& matters) {
  Cloner cloner(module_);
  for (Parameter* p : function.parameters()) cloner.bind(p, forward->parameter(p->index()));
  module_.set_result(forward, cloner.splice(function, forward));
  Body body{forward, module_.make_graph(fmt::format("{}.backward", function.name()), forward)};
  for (size_t i = 0; i < active.size(); ++i) {
    if (active[i]) body.varied.insert(forward->parameter(i));
  }
  prepare(body);
  const auto types = leaf_types(forward->result()->type());
  for (size_t k = 0; k < matters.size(); ++k) {
    if (matters[k]) add(body, forward->result(), k, module_.add_parameter(body.backward, types[k]));
  }
  walk(body);
  return body;
}

// Takes the backward functions out of the forward ones, which return the residuals; makes closures of them where a residual is a function
// that another alternative has nothing in the place of.
void Differentiation::lift_backward(Pair& pair, std::span<Body> bodies) {
  struct Slot {
    Node* node;  // whose leaves are residuals from this on
    size_t first;
  };
  std::vector<std::vector<Slot>> slots(bodies.size());
  std::vector<Lifted> lifted;
  pair.reads.resize(bodies[0].forward->parameters().size());
  std::vector<size_t> owner;
  for (size_t b = 0; b < bodies.size(); ++b) {
    lifted.push_back(lift(module_, *bodies[b].backward));
    for (Node* node : lifted[b].captured) {
      if (const Parameter* p = node->as_parameter()) {
        pair.reads[p->index()] = true;
        continue;
      }
      slots[b].push_back({node, pair.residuals.size()});
      add_leaves(node->type(), pair.residuals);
      owner.resize(pair.residuals.size(), b);
    }
  }
  if (bodies.size() > 1 && std::ranges::any_of(pair.residuals, [](const Type* t) { return !t || t->holds_functions(); })) {
    pair.residuals.clear();
    pair.is_closure = true;
    return;
  }
  for (size_t b = 0; b < bodies.size(); ++b) {
    Graph* forward = bodies[b].forward;
    std::vector<Node*> results = {forward->result()};
    for (size_t i = 0; i < pair.residuals.size(); ++i) results.push_back(owner[i] == b ? nullptr : build_.empty(forward, pair.residuals[i]));
    for (const Slot& slot : slots[b]) {
      const size_t count = leaf_types(slot.node->type()).size();
      for (size_t k = 0; k < count; ++k) results[1 + slot.first + k] = build_.leaf_of(forward, slot.node, k);
    }
    module_.set_result(forward, build_.tuple(forward, results));

    Graph* backward = module_.make_graph(bodies[b].backward->name());
    std::vector<Node*> given, arguments, residuals;
    for (const Parameter* p : forward->parameters()) given.push_back(module_.add_parameter(backward, p->type(), p->name()));
    for (const Type* type : pair.residuals) residuals.push_back(module_.add_parameter(backward, type));
    for (const Parameter* p : bodies[b].backward->parameters()) arguments.push_back(module_.add_parameter(backward, p->type()));
    auto slot = slots[b].begin();
    for (Node* node : lifted[b].captured) {
      if (const Parameter* p = node->as_parameter()) {
        arguments.push_back(given[p->index()]);
      } else {
        std::span<Node* const> leaves = std::span<Node* const>(residuals).subspan(slot->first);
        arguments.push_back(build_.joined(backward, node->type(), leaves));
        ++slot;
      }
    }
    Apply* body = build_.call(backward, lifted[b].graph->value(), arguments, nullptr);
    body->set_type(lifted[b].graph->result()->type());
    module_.set_result(backward, body);
    pair.backward.push_back(backward);
  }
  if (bodies.size() == 1) return;
  for (const Type*& type : pair.residuals) type = build_.or_empty(type);
}

}  // namespace anfora::passes::reverse
