#include "passes/differentiate/differentiation.h"

#include <fmt/format.h>

#include "ir/clone.h"
#include "ir/order.h"
#include "ir/readable.h"
#include "support/element_types.h"

namespace anfora::passes::reverse {

using namespace ir;

// The header of a loop in another graph, up to its test and what it hands on to the branches.
Differentiation::Header Differentiation::copy_header(const LoopForm& loop, Graph* into) {
  Cloner cloner(module_);
  for (Parameter* p : loop.header->parameters()) cloner.bind(p, into->parameter(p->index()));
  Apply* tail = cloner.splice(*loop.header, into)->as_apply();
  Header header{tail->input(0)->as_apply()->input(0), {}};
  for (size_t i = 1; i < tail->num_inputs(); ++i) header.handed_on.push_back(tail->input(i));
  return header;
}
// A function of the loop's parameters: the header and then one of the branches; of the body, what it hands on to the next iteration.
Graph* Differentiation::header_and(const LoopForm& loop, Graph* branch, std::string_view name) {
  Graph* made = module_.make_graph(fmt::format("{}.{}", loop.header->name(), name));
  for (const Parameter* p : loop.header->parameters()) module_.add_parameter(made, p->type(), p->name());
  const Header header = copy_header(loop, made);
  Cloner cloner(module_);
  for (Parameter* p : branch->parameters()) cloner.bind(p, header.handed_on[p->index()]);
  Node* result = cloner.splice(*branch, made);
  if (branch == loop.body) {
    std::vector<Node*> next;
    for (const Use& use : result->as_apply()->operands().subspan(1)) next.push_back(use.node);
    result = build_.tuple(made, next);
  }
  module_.set_result(made, result);
  return made;
}

// The parameters that vary once those given do.
Mask Differentiation::varying(Graph* step, Mask active) {
  for (bool grows = true; grows;) {
    grows = false;
    Body body{step, step};
    for (size_t i = 0; i < active.size(); ++i) {
      if (active[i]) body.varied.insert(step->parameter(i));
    }
    for (const Apply* node : topological_order(*step)) {
      if (depends(body, *node)) body.varied.insert(node);
    }
    const Apply* next = step->result()->as_apply();
    for (size_t i = 0; i < active.size(); ++i) {
      if (active[i] || !body.varied.contains(next->input(i)) || !holds_floats(step->parameter(i)->type())) continue;
      active[i] = grows = true;
    }
  }
  return active;
}

// A dimension as a tensor of one element, where the loop is entered; null: it may be another one in each iteration, or cannot be read there.
Node* Differentiation::size_at_entry(const Apply& entry, Dim dim) {
  if (auto size = dim.as_constant()) return module_.constant(Tensor::vector<int64_t>(std::span(&*size, 1)));
  bool is_of_run = !dim.is_unknown();
  if (is_of_run)
    for_each_symbol(dim, [&](Dim symbol) { is_of_run = is_of_run && !is_generated(symbol.symbol_name()); });
  if (!is_of_run) return nullptr;
  for (const Use& use : entry.operands().subspan(1)) {
    const Type* type = use.node->type();
    if (!type || !type->is_tensor() || !type->has_rank()) continue;
    for (int axis = 0; axis < type->rank(); ++axis) {
      if (!provably_equal(type->dim(axis), dim)) continue;
      return build_.apply(entry.graph(), "Shape", {use.node}, {{"start", axis}, {"end", axis + 1}});
    }
  }
  return nullptr;
}

// Where the items of iterations lie until the backward loop reads them. Where their number is known before the loop, and an item has the same
// size in all of them: one tensor, in which they are written in place, by their index. Else an empty sequence.
Node* Differentiation::room_for_items(const Apply& entry, Node* count, const Type* item) {
  Graph* graph = entry.graph();
  const bool is_stackable = count && item && item->is_tensor() && item->has_rank() &&
                            item->dtype() != DType::Undefined && item->dtype() != DType::String;
  if (!is_stackable) return build_.empty_sequence(graph, item);
  Node* at_least_none = build_.apply(graph, "Max", {count, module_.scalar<int64_t>(0)});
  Node* rows = build_.apply(graph, "Unsqueeze", {at_least_none, module_.constant(Tensor::vector<int64_t>(std::vector<int64_t>{0}))});
  const Tensor zero = Tensor::zeros(item->dtype(), Shape{1});
  std::vector<Node*> sizes = {rows};
  for (Dim dim : item->dims()) {
    sizes.push_back(size_at_entry(entry, dim));
    if (!sizes.back()) return build_.empty_sequence(graph, item);
  }
  Apply* shape = module_.apply(graph, module_.context().get_operator("Concat"), sizes, {{"axis", 0}});
  context_.inference.infer(*shape);
  return build_.apply(graph, "ConstantOfShape", {shape}, {{"value", zero}});
}

void Differentiation::visit_loop(Body& body, Apply& node, const LoopForm& loop, std::span<Node* const> sensitivities) {
  Graph* step = header_and(loop, loop.body, "step");
  Graph* leave = header_and(loop, loop.exit, "leave");
  Mask entering;
  for (size_t i = 1; i < node.num_inputs(); ++i) entering.push_back(body.varied.contains(node.input(i)));
  const Mask active = varying(step, entering);
  require_sensitivities(node, active);
  const std::vector<Leaf> leaves = leaves_of(*step, active);
  Mask matters;
  for (const Parameter* p : step->parameters()) {
    for (const Type* type : leaf_types(p->type())) matters.push_back(active[p->index()] && has_sensitivity(type));
  }
  const Pair& pair = pair_of({step}, active, matters, true);

  // What is kept of each iteration: of the arguments those that change, and that an iteration reads, and the residuals; or the state.
  const bool has_snapshots = checkpoints_ > 0;
  const size_t n = step->parameters().size();
  Mask reads(n), is_pushed(n);
  std::vector<int64_t> increments(n);
  for (size_t i = 0; i < n; ++i) {
    // What happened on the way does not happen again.
    reads[i] = pair.reads[i] || (has_snapshots && !is_token(step->parameter(i)->type()));
    is_pushed[i] = reads[i] && step->result()->as_apply()->input(i) != step->parameter(i);
    // A counter is computed of where it began.
    if (!has_snapshots && is_pushed[i]) increments[i] = increment_of(*step, *step->parameter(i));
    if (increments[i] != 0) is_pushed[i] = false;
  }

  // Forward.
  Graph* graph = body.forward;
  std::vector<Node*> arguments;
  for (const Use& use : node.operands().subspan(1)) arguments.push_back(use.node);
  arguments.push_back(module_.scalar<int64_t>(0));
  Graph* forward;
  Node* count = trip_count(loop, *step, node);
  std::vector<const Type*> last;  // what the loop ends with
  size_t first;
  if (has_snapshots) {
    const std::vector<Node*> plan = first_plan(graph, count);
    arguments.insert(arguments.end(), plan.begin(), plan.end());
    first = arguments.size();
    forward = make_snapshot_loop(loop, step, is_pushed, types_of(plan), count != nullptr);
    for (const Parameter* p : forward->parameters()) last.push_back(p->type());
    for (size_t i = first; i < last.size(); ++i) arguments.push_back(build_.empty_sequence(graph, last[i]->element()));
  } else {
    first = arguments.size();
    for (size_t i = 0; i < n; ++i) {
      if (is_pushed[i]) arguments.push_back(room_for_items(node, count, step->parameter(i)->type()));
    }
    for (const Type* type : pair.residuals) arguments.push_back(room_for_items(node, count, type));
    forward = make_forward_loop(loop, pair, is_pushed, types_of(std::span(arguments).subspan(first)));
    for (const Parameter* p : forward->parameters()) last.push_back(p->type());
  }
  Apply* ended = build_.call(graph, forward->value(), arguments, node.location());
  ended->set_type(module_.context().tuple_type(last));
  std::vector<Node*> ends;
  for (size_t i = 0; i < last.size(); ++i) ends.push_back(build_.item(graph, ended, i));

  // What follows the loop is a call like any other.
  for (size_t i = 0; i < n; ++i) {
    if (active[i]) body.varied.insert(ends[i]);
  }
  Apply* left = build_.call(graph, leave->value(), std::span(ends).first(n), node.location());
  left->set_type(node.type());
  body.varied.insert(left);
  module_.replace(&node, left);
  visit_call(body, *left, sensitivities);

  // Backward.
  const auto sequences = std::span(last).subspan(first);
  Graph* backward = has_snapshots ? make_restart_loop(step, pair, is_pushed, sequences, leaves)
                                  : make_backward_loop(*step, pair, is_pushed, increments, sequences, leaves);
  std::vector<Node*> given = {ends[n]};
  if (count && !has_snapshots) given[0] = build_.apply(graph, "Max", {count, module_.scalar<int64_t>(0)});
  given.insert(given.end(), ends.begin() + static_cast<std::ptrdiff_t>(first), ends.end());
  for (size_t i = 0; i < n; ++i) {
    if (reads[i] && !is_pushed[i]) given.push_back(node.input(i + 1));
  }
  for (Leaf leaf : leaves) {
    Node* known = sensitivity(body, ends[leaf.value], leaf.leaf);
    // What the loop passes on has its sizes before it, too: so zeros need nothing that it returns.
    const bool is_passed_on = step->result()->as_apply()->input(leaf.value) == step->parameter(leaf.value);
    Node* sized = is_passed_on ? node.input(leaf.value + 1) : ends[leaf.value];
    given.push_back(known ? known : zero(body.backward, build_.leaf_of(body.forward, sized, leaf.leaf)));
  }
  Apply* returned = build_.call(body.backward, backward->value(), given, node.location());
  returned->set_type(type_of_results(pair, node));
  for (size_t k = 0; k < leaves.size(); ++k) {
    add(body, node.input(leaves[k].value + 1), leaves[k].leaf, build_.item(body.backward, returned, k));
  }
  module_.erase(&node);
}

// Parameters: those of the loop, the number of iterations, and where the items of iterations lie. Returns all of them at the end.
Graph* Differentiation::make_forward_loop(const LoopForm& loop, const Pair& pair, const Mask& is_pushed,
                                          std::span<const Type* const> items) {
  Graph* made = module_.make_graph(fmt::format("{}.forward", loop.header->name()));
  const size_t n = loop.header->parameters().size();
  for (const Parameter* p : loop.header->parameters()) module_.add_parameter(made, p->type(), p->name());
  Parameter* count = module_.add_parameter(made, module_.context().tensor_type(DType::I64, Shape()), "iterations");
  for (const Type* type : items) module_.add_parameter(made, type);
  const Header header = copy_header(loop, made);
  Graph* again = module_.make_graph(fmt::format("{}.again", made->name()), made);
  Graph* done = module_.make_graph(fmt::format("{}.done", made->name()), made);

  std::vector<Node*> own(made->parameters().begin(), made->parameters().end());
  module_.set_result(done, build_.tuple(done, own));

  Apply* stepped = build_.call(again, pair.forward[0]->value(), std::span(own).first(n), nullptr);
  std::vector<Node*> next, pushed;
  Node* state = module_.tuple_item(again, stepped, 0);
  for (size_t i = 0; i < n; ++i) next.push_back(module_.tuple_item(again, state, i));
  next.push_back(build_.apply(again, "Add", {count, module_.scalar<int64_t>(1)}));
  for (size_t i = 0; i < n; ++i) {
    if (is_pushed[i]) pushed.push_back(own[i]);
  }
  for (size_t i = 0; i < pair.residuals.size(); ++i) pushed.push_back(module_.tuple_item(again, stepped, i + 1));
  auto applied = [&](std::string_view op, std::initializer_list<Node*> inputs) {  // of types that inference will find
    return module_.apply(again, module_.context().get_operator(op), inputs);
  };
  for (Node* item : pushed) {
    Node* room = own[next.size()];
    if (room->type()->is_tensor()) {
      Node* index = applied("Reshape", {count, module_.constant(Tensor::vector<int64_t>(std::vector<int64_t>{1}))});
      next.push_back(applied("ScatterND", {room, index, item}));
    } else {
      next.push_back(applied("SequenceInsert", {room, item}));
    }
  }
  return build_.loop(made, header.test, loop.goes_on_when, again, next, done);
}

// Parameters: the number of iterations that are left, the items of iterations, what the iterations have in common, and the sensitivities, which it
// returns at the end.
Graph* Differentiation::make_backward_loop(const Graph& step, const Pair& pair, const Mask& is_pushed,
                                           std::span<const int64_t> increments, std::span<const Type* const> items,
                                           std::span<const Leaf> leaves) {
  Graph* made = module_.make_graph(fmt::format("{}.backward", step.name()));
  std::vector<Node*> shared(step.parameters().size(), module_.none());
  Parameter* left = module_.add_parameter(made, module_.context().tensor_type(DType::I64, Shape()), "iterations");
  for (const Type* type : items) module_.add_parameter(made, type);
  for (const Parameter* p : step.parameters()) {
    if (pair.reads[p->index()] && !is_pushed[p->index()])
      shared[p->index()] = module_.add_parameter(made, p->type(), p->name());
  }
  const size_t first = made->parameters().size();
  for (Leaf leaf : leaves) module_.add_parameter(made, leaf_types(step.parameter(leaf.value)->type())[leaf.leaf]);
  const std::vector<Node*> own(made->parameters().begin(), made->parameters().end());
  Graph* again = module_.make_graph(fmt::format("{}.again", made->name()), made);
  Graph* done = module_.make_graph(fmt::format("{}.done", made->name()), made);
  module_.set_result(done, build_.tuple(done, std::span(own).subspan(first)));

  // Sequences are popped as they were pushed: a push and a pop are the gradients of each other.
  std::vector<Node*> next = {build_.apply(again, "Sub", {left, module_.scalar<int64_t>(1)})}, popped;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i]->is_tensor()) {
      popped.push_back(build_.apply(again, "Gather", {own[i + 1], next[0]}));
      next.push_back(own[i + 1]);
    } else {
      popped.push_back(build_.apply(again, "SequenceAt", {own[i + 1], module_.scalar<int64_t>(-1)}));
      next.push_back(build_.apply(again, "SequenceErase", {own[i + 1]}));
    }
  }
  std::vector<Node*> arguments = shared;
  size_t at = 0;
  for (size_t i = 0; i < is_pushed.size(); ++i) {
    if (is_pushed[i]) arguments[i] = popped[at++];
    if (increments[i] == 0) continue;
    Node* passed = increments[i] == 1 ? next[0] : build_.apply(again, "Mul", {next[0], module_.scalar(increments[i])});
    arguments[i] = build_.apply(again, "Add", {arguments[i], passed});
  }
  arguments.insert(arguments.end(), popped.begin() + static_cast<std::ptrdiff_t>(at), popped.end());
  arguments.insert(arguments.end(), own.begin() + static_cast<std::ptrdiff_t>(first), own.end());
  Apply* stepped = build_.call(again, pair.backward[0]->value(), arguments, nullptr);
  for (size_t i = next.size(); i < first; ++i) next.push_back(own[i]);
  for (size_t k = 0; k < leaves.size(); ++k) next.push_back(module_.tuple_item(again, stepped, k));
  return build_.loop(made, left, again, next, done);
}

}  // namespace anfora::passes::reverse
