#include "frontend/onnx/draft_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <limits>

#include "anfora/error.h"
#include "frontend/onnx/wire.h"
#include "ir/annotations.h"
#include "support/element_types.h"

namespace anfora::onnx {

using ir::Primitive;

namespace {

// Elements of a constant that is stored again rather than copied by an Identity.
constexpr int64_t kMostRepeated = 32;

// Types of the single values that a result of this type consists of.
void flatten_type(const ir::Type* type, std::vector<const ir::Type*>& leaves) {
  if (type && type->is_tuple()) {
    for (const ir::Type* item : type->elements()) flatten_type(item, leaves);
  } else {
    leaves.push_back(type);
  }
}

// Whether a result that nobody reads can be left out of the node.
bool may_omit_output(const ir::Operator& op, size_t index) {
  return op.known && index < op.outputs.size() && op.outputs[index].arity == ir::Formal::Arity::Optional;
}

}  // namespace

DraftBuilder::DraftBuilder(const ir::Module& module, int64_t opset)
    : module_(module),
      opset_(opset),
      draft_(std::make_unique<Draft>(module.context())),
      order_(ir::topological_order(module)),
      calls_(order_),
      bindings_(module.next_id()) {
  states_.reserve(order_.graphs.size());
  for (const ir::GraphOrder& graph : order_.graphs) {
    states_[graph.graph].order = &graph;
    num_live_nodes_ += graph.nodes.size();
  }
}

std::unique_ptr<Draft> DraftBuilder::build() {
  if (!module_.main()) throw Error(ErrorCode::InvalidArgument, "the module has no main graph");
  if (!order_.back_edges.empty()) {
    throw Error(ErrorCode::InvalidModel, "the node depends on itself").at_node(describe(*order_.back_edges[0].user));
  }
  build_main();
  draft_->remove_unused_nodes();
  return std::move(draft_);
}

void DraftBuilder::build_main() {
  const ir::Graph* main = module_.main();
  const std::string& name = module_.metadata().graph_name;
  DraftGraph* top = draft_->make_graph(name.empty() ? main->name() : std::string_view(name), nullptr);
  draft_->set_main(top);
  top_ = top;
  top->nodes.reserve(state(main).order->nodes.size());
  draft_->reserve_values(num_live_nodes_ + main->parameters().size() + module_.constants().size());
  Activation activation(*this, main, *top);
  for (const ir::Parameter* parameter : main->parameters()) {
    ValueId id = draft_->make_value(top, parameter->name(), parameter->type(), parameter);
    draft_->value(id).pinned = !parameter->name().empty();
    bound(parameter) = value_binding(id);
    top->inputs.push_back(id);
  }
  std::vector<ValueId> results;
  flatten(demand(main->result()), results, main);
  const std::vector<std::string>& names = module_.output_names();
  set_results(*top, results, names);

  std::vector<const ir::Type*> types;
  flatten_type(main->result()->type(), types);
  for (size_t i = 0; i < top->outputs.size(); ++i) {
    DraftValue& value = draft_->value(top->outputs[i]);
    if (types.size() == top->outputs.size()) value.type = types[i];
    if (i >= names.size()) continue;
    value.name = names[i];
    value.pinned = true;
  }
}

void DraftBuilder::refuse(const ir::Graph* graph, std::string_view why) const {
  throw Error(ErrorCode::Unsupported, fmt::format("graph @{} has no ONNX form: {}", graph->name(), why));
}

// States -------------------------------------------------------------------------------------------

DraftBuilder::GraphState& DraftBuilder::state(const ir::Graph* graph) {
  auto found = states_.find(graph);
  if (found == states_.end()) {
    throw Error(ErrorCode::Internal, fmt::format("graph @{} is used by a node that nothing depends on", graph->name()));
  }
  return found->second;
}

DraftBuilder::Activation::Activation(DraftBuilder& builder, const ir::Graph* graph, DraftGraph& place)
    : state_(builder.state(graph)), previous_(state_.place) {
  state_.place = &place;
  if (!std::exchange(state_.is_bound, true)) return;
  for (const ir::Parameter* parameter : graph->parameters()) builder.bound(parameter) = {};
  for (const ir::Apply* node : state_.order->nodes) builder.bound(node) = {};
}

DraftBuilder::CallLevel::CallLevel(DraftBuilder& builder, const ir::Graph* graph) : depth_(builder.call_depth_) {
  if (depth_ == kDeepestCall) {
    throw Error(
        ErrorCode::ResourceExhausted,
        fmt::format("calls are nested more than {} deep where graph @{} is called", kDeepestCall, graph->name()))
        .with_hint("inline functions first");
  }
  builder.count_node();
  ++depth_;
}

// Bindings -----------------------------------------------------------------------------------------

DraftBuilder::Binding DraftBuilder::make_tuple(Bindings items) {
  tuples_.push_back(std::move(items));
  return {Binding::Kind::Tuple, static_cast<uint32_t>(tuples_.size() - 1)};
}

void DraftBuilder::flatten(Binding binding, std::vector<ValueId>& values, const ir::Graph* graph) const {
  switch (binding.kind) {
    case Binding::Kind::Value:
      if (binding.index == kOmitted) refuse(graph, "an absent optional value is a result");
      values.push_back(binding.index);
      return;
    case Binding::Kind::Tuple:
      for (Binding item : tuples_[binding.index]) flatten(item, values, graph);
      return;
    case Binding::Kind::Function: refuse(graph, "a function is an argument or a result");
    case Binding::Kind::Unset: throw Error(ErrorCode::Internal, "a value is used before it is computed");
  }
}

DraftBuilder::Binding DraftBuilder::rebuild(Binding like, const ValueId*& next) {
  if (like.kind != Binding::Kind::Tuple) return value_binding(*next++);
  Bindings items;
  for (size_t i = 0, n = tuples_[like.index].size(); i < n; ++i) items.push_back(rebuild(tuples_[like.index][i], next));
  return make_tuple(std::move(items));
}

// Demand -------------------------------------------------------------------------------------------

DraftBuilder::Binding DraftBuilder::bind_leaf(const ir::Node* node) {
  if (const ir::Value* value = node->as_value()) {
    if (value->is_none()) return value_binding(kOmitted);
    if (value->is_type()) {
      throw Error(ErrorCode::Unsupported, fmt::format("{} is a type, and ONNX has no types as values", to_string(value->described())))
          .with_hint("optimize before export: functions over types are specialized for each");
    }
    if (value->is_graph()) {
      functions_.push_back(value);
      return {Binding::Kind::Function, static_cast<uint32_t>(functions_.size() - 1)};
    }
    auto [at, is_new] = constants_.emplace(value, kOmitted);
    if (is_new) at->second = draft_->place_constant(top_, *value);
    return value_binding(at->second);
  }
  Binding binding = bound(node);
  if (binding.kind == Binding::Kind::Unset) {
    throw Error(ErrorCode::Unsupported, "a parameter is used outside of its graph's calls").at_node(describe(*node));
  }
  return binding;
}

DraftBuilder::Binding DraftBuilder::demand(const ir::Node* node) {
  const ir::Apply* root = node->as_apply();
  if (!root) return bind_leaf(node);
  if (bound(root).kind != Binding::Kind::Unset) return bound(root);
  // Emitting a call demands in turn, on top of this stack.
  size_t bottom = pending_.size();
  pending_.push_back(root);
  while (pending_.size() > bottom) {
    const ir::Apply* next = pending_.back();
    bool is_ready = true;
    if (bound(next).kind == Binding::Kind::Unset && !replaced_.contains(next)) {
      // From right to left, so that the leftmost operand is written first.
      for (size_t i = next->num_inputs(); i-- > 0;) {
        const ir::Apply* operand = next->input(i)->as_apply();
        if (!operand || bound(operand).kind != Binding::Kind::Unset) continue;
        ir::prefetch_before(*operand);
        pending_.push_back(operand);
        is_ready = false;
      }
    }
    if (!is_ready) continue;
    pending_.pop_back();
    if (bound(next).kind != Binding::Kind::Unset) continue;
    try {
      emit(next);
    } catch (Error& e) {
      e.at_node(describe(*next));
      if (next->location()) e.at_location(std::string(next->location()->file));
      throw;
    }
  }
  return bound(root);
}

ValueId DraftBuilder::demand_value(const ir::Node* node) {
  Binding binding = demand(node);
  if (binding.kind == Binding::Kind::Value) return binding.index;
  throw Error(ErrorCode::Unsupported, binding.kind == Binding::Kind::Function ? "ONNX has no functions as values"
                                                                              : "ONNX has no tuples as values");
}

DraftBuilder::Bindings DraftBuilder::demand_all(std::span<const ir::Node* const> nodes) {
  Bindings bindings;
  for (const ir::Node* node : nodes) bindings.push_back(demand(node));
  return bindings;
}

// Nodes --------------------------------------------------------------------------------------------

void DraftBuilder::count_node() {
  if (++num_draft_nodes_ <= kMostGrowth * num_live_nodes_ + kMostAddedNodes) return;
  throw Error(ErrorCode::ResourceExhausted,
              fmt::format("the module's {} nodes make more than {} when functions are inlined where they are called",
                          num_live_nodes_, num_draft_nodes_ - 1));
}

DraftNode& DraftBuilder::add_node(DraftGraph& place, DraftOperator* op, std::span<const ValueId> inputs,
                                  std::span<const ValueId> outputs, const ir::Apply* origin) {
  static const AttributeSet kNone;
  count_node();
  DraftNode& node = place.nodes.emplace_back();
  node.op = op;
  node.attributes = &kNone;
  node.inputs = draft_->keep(inputs);
  node.outputs = draft_->keep(outputs);
  node.origin = origin;
  return node;
}

DraftNode& DraftBuilder::add_control(DraftGraph& place, std::string_view op_type, std::span<const ValueId> inputs,
                                     std::span<const ValueId> outputs, std::span<const Subgraph> subgraphs,
                                     const ir::Apply* origin) {
  DraftNode& node = add_node(place, op_type, inputs, outputs, origin);
  node.subgraphs = draft_->keep(subgraphs);
  if (origin && origin->location()) node.name = origin->location()->name;
  return node;
}

ValueId DraftBuilder::identity(DraftGraph& place, ValueId value) {
  const DraftValue original = draft_->value(value);
  ValueId copy = draft_->make_value(&place, original.name, original.type, original.origin);
  add_node(place, "Identity", {&value, 1}, {&copy, 1}, nullptr);
  return copy;
}

// A constant of the main graph or a function is its result as it is; of a branch or a loop body, which have no constants of
// their own, a Constant node. A small one is stored again rather than copied.
ValueId DraftBuilder::constant_result(DraftGraph& graph, ValueId value, bool is_taken) {
  const DraftValue original = draft_->value(value);
  if (!graph.parent && !original.pinned && !is_taken) return value;
  if (original.constant->size() > kMostRepeated) return identity(graph, value);
  if (!graph.parent) return draft_->make_constant(top_, original.constant, original.name, original.origin);
  ValueId copy = draft_->make_value(&graph, original.name, original.type, original.origin);
  DraftNode& node = add_node(graph, "Constant", {}, {&copy, 1}, nullptr);
  node.attributes = draft_->keep(AttributeSet{{"value", *original.constant}});
  return copy;
}

void DraftBuilder::set_results(DraftGraph& graph, std::span<const ValueId> results, std::span<const std::string> names,
                               size_t num_carried) {
  boost::unordered_flat_set<ValueId> inputs(graph.inputs.begin(), graph.inputs.end()), taken;
  boost::unordered_flat_map<std::string_view, size_t> listed;  // names of outputs, and where they are listed first
  for (size_t i = 0; i < results.size(); ++i) {
    if (i < names.size()) {
      auto [first, is_new] = listed.try_emplace(names[i], i);
      if (!is_new) {  // one value has one name, so it is the same output once more
        if (results[i] != results[first->second]) {
          throw Error(ErrorCode::InvalidModel, fmt::format("two different values are outputs called '{}'", names[i]));
        }
        graph.outputs.push_back(graph.outputs[first->second]);
        continue;
      }
    }
    const DraftValue& value = draft_->value(results[i]);
    if (value.constant) {
      graph.outputs.push_back(constant_result(graph, results[i], !taken.insert(results[i]).second));
      continue;
    }
    bool is_carried = i < num_carried && results[i] != graph.inputs[0];
    bool own = value.graph == &graph && !value.pinned && (is_carried || !inputs.contains(results[i]));
    bool is_input_itself = value.pinned && i < names.size() && value.name == names[i];
    bool as_it_is = (own || is_input_itself) && taken.insert(results[i]).second;
    graph.outputs.push_back(as_it_is ? results[i] : identity(graph, results[i]));
  }
}

std::vector<ValueId> DraftBuilder::make_results(DraftGraph& place, std::span<const ValueId> like) {
  std::vector<ValueId> results;
  for (ValueId id : like) results.push_back(draft_->make_value(&place, {}, draft_->value(id).type));
  return results;
}

// The names of a result's items are those of the nodes that read them.
void DraftBuilder::name_items(const ir::Apply* apply, Binding result) {
  auto name = [&](Binding binding, std::string_view text) {
    if (binding.kind != Binding::Kind::Value || binding.index == kOmitted) return;
    DraftValue& value = draft_->value(binding.index);
    if (value.name.empty() && !value.constant) value.name = text;
    if (!value.origin) value.origin = apply;
  };
  if (result.kind != Binding::Kind::Tuple) return name(result, apply->name());
  const Bindings& items = tuples_[result.index];
  for (const ir::Use& use : apply->uses()) {
    const ir::Apply* item = use.user->as(Primitive::TupleGetItem);
    if (!item || !is_live(item)) continue;
    size_t index = static_cast<size_t>(item->attributes().get_int("index", 0));
    if (index < items.size()) name(items[index], item->name());
  }
  if (!items.empty()) name(items[0], apply->name());
}

void DraftBuilder::emit(const ir::Apply* apply) {
  if (auto found = replaced_.find(apply); found != replaced_.end()) {
    bound(apply) = value_binding(found->second);
    return;
  }
  DraftGraph* place = state(apply->graph()).place;
  if (!place) refuse(apply->graph(), "its values are used outside of its calls");
  Binding result;
  switch (apply->primitive()) {
    case Primitive::MakeTuple: {
      Bindings items;
      for (const ir::Use& use : apply->operands()) items.push_back(demand(use.node));
      result = make_tuple(std::move(items));
      break;
    }
    case Primitive::TupleGetItem: {
      Binding tuple = demand(apply->input(0));
      size_t index = static_cast<size_t>(apply->attributes().require_int("index"));
      if (tuple.kind != Binding::Kind::Tuple || index >= tuples_[tuple.index].size()) {
        throw Error(ErrorCode::TypeMismatch, fmt::format("the operand has no item {}", index));
      }
      result = tuples_[tuple.index][index];
      break;
    }
    case Primitive::Switch:
      functions_.push_back(apply);
      result = {Binding::Kind::Function, static_cast<uint32_t>(functions_.size() - 1)};
      break;
    case Primitive::Call: {
      Nodes arguments;
      for (const ir::Use& use : apply->operands().subspan(1)) arguments.push_back(use.node);
      result = call(*place, apply->input(0), demand_all(arguments), apply);
      name_items(apply, result);
      break;
    }
    case Primitive::Operation: result = emit_operation(apply, *place); break;
    case Primitive::Return: throw Error(ErrorCode::Internal, "a return node is used as a value");
  }
  bound(apply) = result;
}

static std::string_view why_not_onnx(const ir::Apply& apply) {
  if (apply.op().effect == ir::Effect::State) return "ONNX has no effects";
  auto is_type = [](const ir::Node* node) { return node->type() && node->type()->kind() == ir::TypeKind::Type; };
  if (is_type(&apply) || std::ranges::any_of(apply.operands(), is_type, &ir::Use::node)) {
    return "ONNX has no types as values, and this one is not known before the run";
  }
  return apply.op().name.starts_with("Lowered") ? "export before lowering" : "ONNX has no operator that means it";
}

DraftBuilder::Binding DraftBuilder::emit_operation(const ir::Apply* apply, DraftGraph& place) {
  const ir::Operator& op = apply->op();
  if (op.domain == "anfora") {
    if (op.name == "StackSequence") return emit_stack_sequence(apply, place);
    if (op.name == "SequenceReplace") return emit_sequence_replace(apply, place);
    throw Error(ErrorCode::Unsupported, fmt::format("operator {} has no ONNX form", op.qualified))
        .with_hint(std::string(why_not_onnx(*apply)));
  }
  ValueIds inputs, outputs;
  for (const ir::Use& use : apply->operands()) inputs.push_back(demand_value(use.node));
  while (!inputs.empty() && inputs.back() == kOmitted) inputs.pop_back();

  Binding result;
  size_t n = apply->num_outputs();
  if (n == 1) {
    outputs.push_back(draft_->make_value(&place, apply->name(), apply->type(), apply));
    result = value_binding(outputs[0]);
  } else {
    std::vector<bool> is_read(n, false);
    for (const ir::Use& use : apply->uses()) {
      if (!is_live(use.user)) continue;
      if (use.user->primitive() == Primitive::TupleGetItem) {
        size_t index = static_cast<size_t>(use.user->attributes().get_int("index", 0));
        if (index < n) is_read[index] = true;
      } else {
        is_read.assign(n, true);
      }
    }
    Bindings items;
    for (size_t i = 0; i < n; ++i) {
      const ir::Type* type = apply->type() && apply->type()->is_tuple() ? apply->type()->element(i) : nullptr;
      bool omit = !is_read[i] && may_omit_output(op, i);
      outputs.push_back(omit ? kOmitted : draft_->make_value(&place, {}, type, apply));
      items.push_back(value_binding(outputs.back()));
    }
    while (outputs.size() > 1 && outputs.back() == kOmitted) outputs.pop_back();
    result = make_tuple(std::move(items));
    name_items(apply, result);
  }
  ValueIds captures;
  if (!op.known) captures = take_captures(apply, place, inputs);
  DraftOperator*& called = operators_[&op];
  if (!called) called = draft_->find_operator(op.domain, op.name, op.known);
  DraftNode& node = add_node(place, called, inputs, outputs, apply);
  node.captures = draft_->keep(captures);
  node.attributes = &apply->attributes();
  if (apply->location()) node.name = apply->location()->name;
  return result;
}

// The graphs of an unknown operator refer to their surroundings by name. The last inputs are what they refer to: those
// are no inputs of the node, but must have these names.
DraftBuilder::ValueIds DraftBuilder::take_captures(const ir::Apply* apply, DraftGraph& place, ValueIds& inputs) {
  std::vector<std::string> names = apply->attributes().get_strings(kCaptures);
  if (names.size() > inputs.size()) throw Error(ErrorCode::InvalidModel, "more captured names than operands");
  ValueIds captures(inputs.end() - static_cast<std::ptrdiff_t>(names.size()), inputs.end());
  inputs.resize(inputs.size() - names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    if (draft_->value(captures[i]).pinned && draft_->value(captures[i]).name != names[i]) {
      captures[i] = identity(place, captures[i]);
    }
    DraftValue& value = draft_->value(captures[i]);
    value.name = draft_->keep(names[i]);
    value.pinned = true;
  }
  return captures;
}

// A sequence of unknown length that is stacked where no loop collected it. ConcatFromSequence does the same, except
// that it refuses the empty sequence.
DraftBuilder::Binding DraftBuilder::emit_stack_sequence(const ir::Apply* apply, DraftGraph& place) {
  int64_t axis = apply->attributes().get_int("axis", 0);
  bool reverse = apply->attributes().get_int("reverse", 0) != 0;
  ValueId sequence = demand_value(apply->input(0));
  ValueId stacked = draft_->make_value(&place, reverse ? std::string_view() : apply->name(), apply->type(), apply);
  DraftNode& node = add_node(place, "ConcatFromSequence", {&sequence, 1}, {&stacked, 1}, apply);
  node.attributes = draft_->keep(AttributeSet{{"axis", axis}, {"new_axis", int64_t{1}}});
  if (apply->location()) node.name = apply->location()->name;
  if (!reverse) return value_binding(stacked);

  auto ints = [&](int64_t value) {
    return draft_->make_constant(top_, Tensor::vector<int64_t>(std::span<const int64_t>(&value, 1)));
  };
  ValueId last = ints(-1), step = last;
  ValueId operands[] = {stacked, last, ints(std::numeric_limits<int64_t>::min()), ints(axis), step};
  ValueId reversed = draft_->make_value(&place, apply->name(), apply->type(), apply);
  add_node(place, "Slice", operands, {&reversed, 1}, apply);
  return value_binding(reversed);
}

// SequenceInsert(SequenceErase(s, i), x, i < 0 ? i + length : i)
DraftBuilder::Binding DraftBuilder::emit_sequence_replace(const ir::Apply* apply, DraftGraph& place) {
  const ValueId sequence = demand_value(apply->input(0)), item = demand_value(apply->input(1)), position = demand_value(apply->input(2));
  ir::Context& context = module_.context();
  const ir::Type* index = apply->input(2)->type();
  auto emit = [&](std::string_view op, std::initializer_list<ValueId> operands, const ir::Type* type) {
    const ValueId made = draft_->make_value(&place, {}, type, apply);
    add_node(place, op, {operands.begin(), operands.size()}, {&made, 1}, apply);
    return made;
  };
  const ir::Type* truth = context.tensor_type(DType::Bool, index->dims());
  const ValueId zero = draft_->make_constant(top_, Tensor::scalar<int64_t>(0));
  const ValueId from_end = emit("Add", {position, emit("SequenceLength", {sequence}, index)}, index);
  const ValueId from_front = emit("Where", {emit("Less", {position, zero}, truth), from_end, position}, index);
  const ValueId rest = emit("SequenceErase", {sequence, position}, apply->input(0)->type());
  const ValueId replaced = draft_->make_value(&place, apply->name(), apply->type(), apply);
  const ValueId operands[] = {rest, item, from_front};
  DraftNode& node = add_node(place, "SequenceInsert", operands, {&replaced, 1}, apply);
  if (apply->location()) node.name = apply->location()->name;
  return value_binding(replaced);
}

DraftGraph* DraftBuilder::make_subgraph(const ir::Graph* body, std::string_view otherwise, DraftGraph& place) {
  const ir::Annotation* annotation = body ? body->annotation().get() : nullptr;
  std::string_view name = annotation && !annotation->name.empty() ? annotation->name : body ? body->name() : otherwise;
  DraftGraph* graph = draft_->make_graph(name, &place);
  graph->annotation = annotation;
  return graph;
}

// Calls --------------------------------------------------------------------------------------------

// The constant function or Switch behind a node of Func type.
const ir::Node* DraftBuilder::resolve_function(const ir::Node* node) {
  Binding binding = demand(node);
  if (binding.kind == Binding::Kind::Function) return functions_[binding.index];
  throw Error(ErrorCode::Unsupported, "the function that is called is not known").at_node(describe(*node));
}

void DraftBuilder::bind_parameters(const ir::Graph* graph, const Bindings& arguments) {
  if (arguments.size() != graph->parameters().size()) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("graph @{} has {} parameters and is called with {} arguments",
                                                     graph->name(), graph->parameters().size(), arguments.size()));
  }
  for (size_t i = 0; i < arguments.size(); ++i) bound(graph->parameter(i)) = arguments[i];
}

DraftBuilder::Binding DraftBuilder::call(DraftGraph& place, const ir::Node* callee, const Bindings& arguments,
                                         const ir::Apply* origin) {
  callee = resolve_function(callee);
  CallLevel level(*this, callee->is_apply() ? callee->graph() : callee->as_value()->function());
  if (const ir::Apply* choice = callee->as_apply()) return emit_if(place, choice, arguments, origin);
  const ir::Graph* graph = callee->as_value()->function();
  if (calls_.is_recursive(graph)) return emit_loop(place, graph, arguments, origin);
  if (!graph->parent()) return call_top_level(place, graph, arguments, origin);
  return inline_graph(place, graph, arguments);
}

DraftBuilder::Binding DraftBuilder::inline_graph(DraftGraph& place, const ir::Graph* graph, const Bindings& arguments) {
  Activation activation(*this, graph, place);
  bind_parameters(graph, arguments);
  return demand(graph->result());
}

DraftBuilder::Binding DraftBuilder::emit_if(DraftGraph& place, const ir::Apply* choice, const Bindings& arguments,
                                            const ir::Apply* origin) {
  ValueId condition = demand_value(choice->input(0));
  static constexpr std::string_view kAttributes[] = {"then_branch", "else_branch"};
  Subgraph branches[2];
  Binding results[2];
  std::vector<ValueId> leaves[2];
  for (int i = 0; i < 2; ++i) {
    const ir::Node* branch = choice->input(1 + i);
    const ir::Graph* graph = constant_function(branch);
    branches[i] = {kAttributes[i], make_subgraph(graph, kAttributes[i], place)};
    results[i] = call(*branches[i].graph, branch, arguments, nullptr);
    flatten(results[i], leaves[i], graph ? graph : choice->graph());
    set_results(*branches[i].graph, leaves[i]);
  }
  if (leaves[0].size() != leaves[1].size()) {
    throw Error(ErrorCode::TypeMismatch, "the branches have results of different structure").at_node(describe(*choice));
  }
  if (leaves[0].empty()) return results[0];

  std::vector<ValueId> outputs = make_results(place, leaves[0]);
  if (origin) {
    std::vector<const ir::Type*> types;
    flatten_type(origin->type(), types);
    for (size_t i = 0; i < outputs.size() && types.size() == outputs.size(); ++i) {
      draft_->value(outputs[i]).type = types[i];
    }
  }
  add_control(place, "If", {&condition, 1}, outputs, branches, origin ? origin : choice);
  const ValueId* next = outputs.data();
  return rebuild(results[0], next);
}

// A function of the module becomes a local function of the model where it takes and gives single values; else its
// body is inlined.
DraftBuilder::Binding DraftBuilder::call_top_level(DraftGraph& place, const ir::Graph* graph, const Bindings& arguments,
                                                   const ir::Apply* origin) {
  bool single_values = std::ranges::all_of(arguments, [](Binding b) { return b.kind == Binding::Kind::Value; });
  if (!single_values || !origin) return inline_graph(place, graph, arguments);
  GraphState& s = state(graph);
  if (!s.function) {
    DraftGraph* function = draft_->make_graph(graph->name(), nullptr);
    function->annotation = graph->annotation().get();
    function->domain = kFunctionDomain;
    if (size_t at = graph->name().find("::");
        at != std::string_view::npos && at > 0) {  // "domain::name" from an import
      function->domain = graph->name().substr(0, at);
      function->name = graph->name().substr(at + 2);
    }
    DraftGraph* outer_top = std::exchange(top_, function);
    auto outer_constants = std::exchange(constants_, {});
    {
      Activation activation(*this, graph, *function);
      for (const ir::Parameter* parameter : graph->parameters()) {
        ValueId id = draft_->make_value(function, parameter->name(), nullptr, parameter);
        bound(parameter) = value_binding(id);
        function->inputs.push_back(id);
      }
      s.function_result = demand(graph->result());
      std::vector<ValueId> results;
      flatten(s.function_result, results, graph);
      set_results(*function, results);
    }
    top_ = outer_top;
    constants_ = std::move(outer_constants);
    s.function = function;
    draft_->add_function(function);
  }
  std::vector<ValueId> inputs;
  for (Binding argument : arguments) inputs.push_back(argument.index);
  std::vector<ValueId> outputs = make_results(place, s.function->outputs);
  std::vector<const ir::Type*> types;
  flatten_type(origin->type(), types);
  for (size_t i = 0; i < outputs.size(); ++i) {
    draft_->value(outputs[i]).type = types.size() == outputs.size() ? types[i] : nullptr;
  }
  DraftNode& node = add_control(place, s.function->name, inputs, outputs, {}, origin);
  node.op = draft_->find_operator(s.function->domain, s.function->name);
  const ValueId* next = outputs.data();
  return rebuild(s.function_result, next);
}

}  // namespace anfora::onnx
