// Loops with few snapshots: instead of what each iteration leaves, the forward loop keeps at most s states, and the backward loop runs the
// iterations between them again. Positions and states lie on sequences as on a stack, the last ones on top:
//
//     forward(v, n, next)      = if test(v): forward(step(v), n + 1, n = next ? (push (n, v), the next position) : next)    else (v, n)
//     backward(n, dv)          = if n > 0:
//                                  (p, v) = the top
//                                  if p = n − 1: pop, backward(n − 1, step.backward(v, dv))
//                                  else:         push (p + a, step^a(v)), backward(n, dv)                                   else dv
//
// The number a is that of Griewank and Walther's revolve, for the places that are free. Where the number of iterations is known before the
// loop, so are the positions of the forward loop: iterations are repeated as seldom as is possible. With t the least number for which
// β(s, t) = (s + t)! / (s! t!) ≥ n, there are t · n − β(s + 1, t − 1) runs of an iteration, the n − 1 first ones among them.
//
// Else each state becomes a snapshot, of level 0. Once all places are taken, the last one goes that a later one of a higher level makes
// dispensable; where there is none, the state at hand takes the place of the one before it, one level higher: Q. Wang, P. Moin and
// G. Iaccarino, "Minimal repetition dynamic checkpointing algorithm for unsteady adjoint calculation", 2009. So no iteration is repeated more
// often than where the number is known. Up to n = β(s, 2), and at each n = β(s, t), there are not more runs in all, either: P. Stumm and
// A. Walther, "New algorithms for optimal online checkpointing", 2010.
//
// The state at hand, from which the next iteration is computed, is not one of the s.
#include <fmt/format.h>

#include <limits>

#include "ir/clone.h"
#include "passes/differentiate/differentiation.h"

namespace anfora::passes::reverse {

using namespace ir;

namespace {

// Operands not typed yet: inference, of the module as a whole, will do it.
Node* applied(Module& module, Graph* graph, std::string_view op, std::initializer_list<Node*> inputs) {
  return module.apply(graph, module.context().get_operator(op), inputs);
}

// Whether an operand of a loop's test is the same in all iterations.
bool is_bound(const Graph& step, Node* operand) {
  const Parameter* p = operand->as_parameter();
  return p ? step.result()->as_apply()->input(p->index()) == step.parameter(p->index()) : operand->is_value();
}

}  // namespace

// How often the loop turns, where it counts up to a number (for i in range(n)) or down to one (a backward loop). Computed where the loop is
// entered; null: it is not known.
Node* Differentiation::trip_count(const LoopForm& loop, const Graph& step, const Apply& entry) {
  const Apply* test = loop.header->result()->as_apply()->input(0)->as_apply()->input(0)->as_apply();
  if (!loop.goes_on_when || !test || !(test->is("Less") || test->is("Greater"))) return nullptr;
  Node *smaller = test->input(0), *larger = test->input(1);
  if (test->is("Greater")) std::swap(smaller, larger);
  const Parameter *up = smaller->as_parameter(), *down = larger->as_parameter();
  const bool counts_up = up && increment_of(step, *up) == 1 && is_bound(step, larger);
  const bool counts_down = down && increment_of(step, *down) == -1 && is_bound(step, smaller);
  if (!counts_up && !counts_down) return nullptr;
  auto at_entry = [&](Node* node) { return node->as_parameter() ? entry.input(node->as_parameter()->index() + 1) : node; };
  return build_.apply(entry.graph(), "Sub", {at_entry(larger), at_entry(smaller)});
}

Node* Differentiation::call_of_library(Graph* graph, std::string_view function, std::span<Node* const> arguments) {
  return build_.call(graph, import(module_, *library_.find(function))->value(), arguments, nullptr);
}

// Iterations from a position with so many before the end, with the snapshot there as the last of so many.
Node* Differentiation::steps_ahead(Graph* graph, Node* length, Node* num_snapshots) {
  Node* places = applied(module_, graph, "Sub", {module_.scalar<int64_t>(checkpoints_ + 1), num_snapshots});
  Node* arguments[] = {length, applied(module_, graph, "Max", {places, module_.scalar<int64_t>(1)})};
  return call_of_library(graph, "steps_ahead", arguments);
}

// By what the forward loop chooses snapshots, where it is entered: the position of the next one, and the trip count. Where that is not known: how
// many snapshots are dispensable, the place of the last one, the level of the one behind it, and the levels of those before that stay.
std::vector<Node*> Differentiation::first_plan(Graph* graph, Node* trip_count) {
  if (trip_count) return {module_.scalar<int64_t>(0), trip_count};
  Node* no_levels = build_.empty_sequence(graph, module_.context().tensor_type(DType::I64, Shape()));
  return {module_.scalar<int64_t>(0), module_.scalar<int64_t>(-1), module_.scalar(std::numeric_limits<int64_t>::max()), no_levels};
}

// The plan and the sequences after an iteration, of one that takes a snapshot at each planned position.
Apply* Differentiation::take_planned(Graph* graph, const Iteration& at) {
  Graph* take = module_.make_graph(fmt::format("{}.take", graph->name()), graph);
  Graph* skip = module_.make_graph(fmt::format("{}.skip", graph->name()), graph);
  std::vector<Node*> taken = {nullptr, at.plan[1]};
  for (size_t i = 0; i < at.snapshot.size(); ++i) taken.push_back(applied(module_, take, "SequenceInsert", {at.sequences[i], at.snapshot[i]}));
  Node* length = applied(module_, take, "Sub", {at.plan[1], at.position()});
  Node* ahead = steps_ahead(take, length, applied(module_, take, "SequenceLength", {taken[2]}));
  taken[0] = applied(module_, take, "Add", {at.position(), ahead});
  module_.set_result(take, build_.tuple(take, taken));
  std::vector<Node*> skipped(at.plan.begin(), at.plan.end());
  skipped.insert(skipped.end(), at.sequences.begin(), at.sequences.end());
  module_.set_result(skip, build_.tuple(skip, skipped));
  Node* is_time = build_.apply(graph, "Equal", {at.position(), at.plan[0]});
  return module_.call(graph, module_.make_switch(graph, is_time, take->value(), skip->value()), {});
}

// The same of one that always takes a snapshot, where all places are taken instead of another one.
Apply* Differentiation::take_always(Graph* graph, const Iteration& at) {
  Node *num_dispensable = at.plan[0], *place = at.plan[1], *level = at.plan[2], *levels = at.plan[3];
  Node *one = module_.scalar<int64_t>(1), *last = module_.scalar<int64_t>(-1);
  auto branch = [&](Graph* outer, std::string_view name) { return module_.make_graph(fmt::format("{}.{}", graph->name(), name), outer); };
  auto finish = [&](Graph* made, std::vector<Node*> results, Node* replaced) {
    for (size_t i = 0; i < at.snapshot.size(); ++i) {
      Node* sequence = replaced ? applied(module_, made, "SequenceErase", {at.sequences[i], replaced}) : at.sequences[i];
      results.push_back(applied(module_, made, "SequenceInsert", {sequence, at.snapshot[i]}));
    }
    module_.set_result(made, build_.tuple(made, results));
  };
  Graph *replace = branch(graph, "replace"), *other = branch(graph, "other"), *raise = branch(other, "raise"), *add = branch(other, "add");
  finish(replace, {applied(module_, replace, "Sub", {num_dispensable, one}), applied(module_, replace, "Sub", {place, one}), level, levels}, place);
  finish(add, {at.plan.begin(), at.plan.end()}, nullptr);
  Node* behind = applied(module_, raise, "Sub", {module_.scalar(checkpoints_ - 1), place});
  Node* arguments[] = {levels, level, behind};
  Node* raised = call_of_library(raise, "raised", arguments);
  finish(raise, {module_.tuple_item(raise, raised, 0), module_.scalar(checkpoints_ - 1), module_.tuple_item(raise, raised, 1),
                 module_.tuple_item(raise, raised, 2)}, last);
  Node* is_full = applied(module_, other, "Greater", {at.position(), module_.scalar(checkpoints_)});
  module_.set_result(other, module_.call(other, module_.make_switch(other, is_full, raise->value(), add->value()), {}));
  Node* any = build_.apply(graph, "Greater", {num_dispensable, module_.scalar<int64_t>(0)});
  return module_.call(graph, module_.make_switch(graph, any, replace->value(), other->value()), {});
}

// Parameters: those of the loop, the number of iterations, the plan, and the sequences, of positions and of states. Returns all of them at the end.
Graph* Differentiation::make_snapshot_loop(const LoopForm& loop, Graph* step, const Mask& changes, std::span<const Type* const> plan,
                                           bool is_count_known) {
  Graph* made = module_.make_graph(fmt::format("{}.forward", loop.header->name()));
  const Type* integer = module_.context().tensor_type(DType::I64, Shape());
  const size_t n = loop.header->parameters().size();
  for (const Parameter* p : loop.header->parameters()) module_.add_parameter(made, p->type(), p->name());
  Parameter* count = module_.add_parameter(made, integer, "iterations");
  for (const Type* type : plan) module_.add_parameter(made, type);
  std::vector<Node*> snapshot = {count};
  for (size_t i = 0; i < n; ++i) {
    if (changes[i]) snapshot.push_back(made->parameter(i));
  }
  for (Node* item : snapshot) module_.add_parameter(made, module_.context().sequence_type(item->type()));
  const std::vector<Node*> own(made->parameters().begin(), made->parameters().end());
  const Header header = copy_header(loop, made);
  Graph* again = module_.make_graph(fmt::format("{}.again", made->name()), made);
  Graph* done = module_.make_graph(fmt::format("{}.done", made->name()), made);
  module_.set_result(done, build_.tuple(done, own));

  const auto kept = std::span(own).subspan(n + 1);
  const Iteration at{kept.first(plan.size()), kept.subspan(plan.size()), snapshot};
  Apply* taken = is_count_known ? take_planned(again, at) : take_always(again, at);
  Apply* stepped = build_.call(again, step->value(), std::span(own).first(n), nullptr);
  std::vector<Node*> arguments;
  for (size_t i = 0; i < n; ++i) arguments.push_back(module_.tuple_item(again, stepped, i));
  arguments.push_back(build_.apply(again, "Add", {count, module_.scalar<int64_t>(1)}));
  for (size_t i = 0; i < kept.size(); ++i) arguments.push_back(module_.tuple_item(again, taken, i));
  return build_.loop(made, header.test, loop.goes_on_when, again, arguments, done);
}

// Parameters: those of an iteration, and how many there are to be run. Returns the first ones as they are then.
Graph* Differentiation::make_replay_loop(Graph* step) {
  Graph* made = module_.make_graph(fmt::format("{}.replay", step->name()));
  for (const Parameter* p : step->parameters()) module_.add_parameter(made, p->type(), p->name());
  Parameter* left = module_.add_parameter(made, module_.context().tensor_type(DType::I64, Shape()), "iterations");
  const std::vector<Node*> state(made->parameters().begin(), made->parameters().end() - 1);
  Graph* again = module_.make_graph(fmt::format("{}.again", made->name()), made);
  Graph* done = module_.make_graph(fmt::format("{}.done", made->name()), made);
  module_.set_result(done, build_.tuple(done, state));
  Apply* stepped = build_.call(again, step->value(), state, nullptr);
  std::vector<Node*> next;
  for (size_t i = 0; i < state.size(); ++i) next.push_back(module_.tuple_item(again, stepped, i));
  next.push_back(build_.apply(again, "Sub", {left, module_.scalar<int64_t>(1)}));
  return build_.loop(made, left, again, next, done);
}

// Parameters: the number of iterations that are left, the sequences, what the iterations have in common, and the sensitivities, which it
// returns at the end.
Graph* Differentiation::make_restart_loop(Graph* step, const Pair& pair, const Mask& changes, std::span<const Type* const> sequences,
                                          std::span<const Leaf> leaves) {
  Graph* made = module_.make_graph(fmt::format("{}.backward", step->name()));
  Parameter* left = module_.add_parameter(made, module_.context().tensor_type(DType::I64, Shape()), "iterations");
  for (const Type* type : sequences) module_.add_parameter(made, type);
  std::vector<Node*> state(step->parameters().size());
  for (const Parameter* p : step->parameters()) {
    if (!changes[p->index()] && !is_token(p->type())) state[p->index()] = module_.add_parameter(made, p->type(), p->name());
  }
  const size_t first = made->parameters().size();
  for (Leaf leaf : leaves) module_.add_parameter(made, leaf_types(step->parameter(leaf.value)->type())[leaf.leaf]);
  const std::vector<Node*> own(made->parameters().begin(), made->parameters().end());
  const std::span<Node* const> stacks = std::span(own).subspan(1, sequences.size()), sensitivities = std::span(own).subspan(first);
  Graph* again = module_.make_graph(fmt::format("{}.again", made->name()), made);
  Graph* done = module_.make_graph(fmt::format("{}.done", made->name()), made);
  module_.set_result(done, build_.tuple(done, sensitivities));

  Node* top = module_.scalar<int64_t>(-1);
  Node* position = build_.apply(again, "SequenceAt", {stacks[0], top});
  Node* last = build_.apply(again, "Sub", {left, module_.scalar<int64_t>(1)});
  for (size_t i = 0, at = 1; i < state.size(); ++i) {
    if (changes[i]) state[i] = build_.apply(again, "SequenceAt", {stacks[at++], top});
    if (is_token(step->parameter(i)->type())) state[i] = build_.apply(again, "InitialState", {});  // of effects that no result depends on
  }
  // Both give the number of iterations, the sequences, and the sensitivities.
  Graph* back = module_.make_graph(fmt::format("{}.back", made->name()), again);
  std::vector<Node*> results = {last}, arguments = state;
  for (Node* stack : stacks) results.push_back(build_.apply(back, "SequenceErase", {stack}));
  Apply* forward = build_.call(back, pair.forward[0]->value(), state, nullptr);
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!pair.reads[i]) arguments[i] = module_.none();
  }
  for (size_t i = 0; i < pair.residuals.size(); ++i) arguments.push_back(module_.tuple_item(back, forward, i + 1));
  arguments.insert(arguments.end(), sensitivities.begin(), sensitivities.end());
  Apply* stepped = build_.call(back, pair.backward[0]->value(), arguments, nullptr);
  for (size_t k = 0; k < leaves.size(); ++k) results.push_back(module_.tuple_item(back, stepped, k));
  module_.set_result(back, build_.tuple(back, results));

  Graph* ahead = module_.make_graph(fmt::format("{}.ahead", made->name()), again);
  Node* length = build_.apply(ahead, "Sub", {left, position});
  Node* steps = steps_ahead(ahead, length, build_.apply(ahead, "SequenceLength", {stacks[0]}));
  arguments = state;
  arguments.push_back(steps);
  Apply* replayed = build_.call(ahead, make_replay_loop(step)->value(), arguments, nullptr);
  results = {left, applied(module_, ahead, "SequenceInsert", {stacks[0], applied(module_, ahead, "Add", {position, steps})})};
  for (size_t i = 0; i < state.size(); ++i) {
    if (!changes[i]) continue;
    Node* reached = module_.tuple_item(ahead, replayed, i);
    results.push_back(applied(module_, ahead, "SequenceInsert", {stacks[results.size() - 1], reached}));
  }
  results.insert(results.end(), sensitivities.begin(), sensitivities.end());
  module_.set_result(ahead, build_.tuple(ahead, results));

  Node* is_there = build_.apply(again, "Equal", {position, last});
  Apply* moved = module_.call(again, module_.make_switch(again, is_there, back->value(), ahead->value()), {});
  std::vector<Node*> next;
  for (size_t i = 0; i <= sequences.size(); ++i) next.push_back(module_.tuple_item(again, moved, i));
  next.insert(next.end(), own.begin() + static_cast<std::ptrdiff_t>(sequences.size()) + 1, own.begin() + static_cast<std::ptrdiff_t>(first));
  for (size_t k = 0; k < leaves.size(); ++k) next.push_back(module_.tuple_item(again, moved, sequences.size() + 1 + k));
  return build_.loop(made, left, again, next, done);
}

}  // namespace anfora::passes::reverse
