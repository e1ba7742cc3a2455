#include "rewrite/instantiate.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/evaluate.h"
#include "analysis/folding.h"
#include "anfora/error.h"
#include "ir/clone.h"
#include "ops/registry.h"
#include "rewrite/expression.h"

namespace anfora::rewrite {

using namespace ir;

namespace {

// Elements of a constant that is computed on the way.
constexpr int64_t kMostKnown = ops::kMostTrackedElements;

// As far as it is known before it is computed.
bool is_small(const Type* type) {
  auto shape = type && type->is_tensor() ? type->static_shape() : std::nullopt;
  return type && type->is_tensor() && (!shape || element_count(*shape) <= kMostKnown);
}

// A constant as the value of an attribute; none where it is of another kind.
std::optional<AttributeValue> attribute_value(const Tensor& tensor, AttributeDeclaration::Kind kind) {
  using enum AttributeDeclaration::Kind;
  const bool is_integer = tensor.dtype() == DType::I64, is_float = tensor.dtype() == DType::F32;
  const bool is_string = tensor.dtype() == DType::String;
  auto list = [&]<class T>(T) { return std::vector<T>(tensor.data<T>().begin(), tensor.data<T>().end()); };
  if (kind == Tensor) return tensor;
  if (kind == Ints && is_integer) return list(int64_t{});
  if (kind == Floats && is_float) return list(float{});
  if (kind == Strings && is_string) return list(std::string());
  if (tensor.size() != 1) return std::nullopt;
  if (kind == Int && is_integer) return tensor.data<int64_t>()[0];
  if (kind == Float && is_float) return tensor.data<float>()[0];
  if (kind == String && is_string) return tensor.data<std::string>()[0];
  return std::nullopt;
}

// An operator with its inputs, those behind them being attributes.
struct Application {
  const Operator& op;
  std::span<const Use> inputs;
};
Application application_of(const Context& context, const Apply& node) {
  if (!node.is(kWithAttributes)) return {node.op(), node.operands()};
  const size_t attributes = node.attributes().get_strings("names").size();
  return {context.get_operator(node.attributes().get_string("operator", "")),
          node.operands().first(node.num_inputs() - attributes)};
}

// A choice that is left to the run.
const Apply* choice_at_run(const Node* callee) {
  const Apply* choice = callee->as(Primitive::Switch);
  const Apply* condition = choice ? choice->input(0)->as_apply() : nullptr;
  return condition && condition->is(kAtRun) ? choice : nullptr;
}
// A function that begins with one.
bool is_loop(const Graph& function) {
  const Apply* call = function.result()->as(Primitive::Call);
  return call && choice_at_run(call->input(0));
}
bool is_at_run(const Apply& call) {
  const Graph* function = constant_function(call.input(0));
  return function ? is_loop(*function) : choice_at_run(call.input(0)) != nullptr;
}

// Whether a loop passes a parameter on to itself as it is.
bool is_invariant(const Graph& loop, size_t i) {
  for (const Use& use : loop.value()->uses()) {
    const bool calls = use.user->primitive() == Primitive::Call && use.index() == 0;
    const bool is_inside = use.user->graph() == &loop || use.user->graph()->parent() == &loop;
    if (calls && is_inside && use.user->input(i + 1) != loop.parameter(i)) return false;
  }
  return true;
}

}  // namespace

Instance::Instance(const Library& library, Rewriter& rewriter, const Graph& function, const AttributeSet& attributes)
    : library_(&library), rewriter_(rewriter) {
  const Apply& root = rewriter.root();
  Frame& frame = frames_.emplace_back(Frame{.graph = &function, .target = root.graph(), .op = &root.op(), .attributes = attributes});
  const auto& inputs = root.op().inputs;
  const bool is_variadic = !inputs.empty() && inputs.back().arity == Formal::Arity::Variadic;
  const size_t num_single = is_variadic ? inputs.size() - 1 : root.num_inputs();
  std::vector<Node*> others;
  for (const Use& use : root.operands()) {
    if (use.index() < num_single) {
      frame.arguments.push_back({use.node, nullptr});
    } else {
      others.push_back(use.node);
    }
  }
  if (is_variadic) frame.arguments.push_back({rewriter.tuple(others), nullptr});
}

Instance::Instance(Rewriter& rewriter, const Graph& function, std::span<Node* const> arguments, Sensitivities& sensitivities)
    : library_(nullptr), sensitivities_(&sensitivities), rewriter_(rewriter) {
  const Apply& root = rewriter.root();
  Frame& frame = frames_.emplace_back(Frame{.graph = &function, .target = root.graph(), .op = &root.op(), .attributes = root.attributes()});
  for (Node* argument : arguments) frame.arguments.push_back({argument, nullptr});
}

Node* Instance::item(size_t i) { return item({frames_.front().graph->result(), &frames_.front()}, i); }
Node* Instance::value() { return value({frames_.front().graph->result(), &frames_.front()}); }

Node* Instance::result(size_t i) {
  Frame& frame = frames_.front();
  const Place place{frame.graph->result(), &frame};
  return rewriter_.root().num_outputs() == 1 && frame.op->outputs.size() == 1 ? value(place) : item(place, i);
}

// Frames -------------------------------------------------------------------------------------------------------------

Instance::Frame* Instance::frame_of(const Node& node, Frame* from) {
  while (from->graph != node.graph()) from = from->outer;
  return from;
}

// What is left out behind the last operand is none.
Instance::Place Instance::argument(const Parameter& parameter, Frame* frame) const {
  if (parameter.index() < frame->arguments.size()) return frame->arguments[parameter.index()];
  return {rewriter_.module().none(), nullptr};
}

// The frame of an application that is written out: a call, or an operator of the library; null: it is another one, or left to the run.
Instance::Frame* Instance::called(const Apply& node, Frame* frame) {
  if (auto known = frame->calls.find(&node); known != frame->calls.end()) return known->second;
  if (node.primitive() == Primitive::Call) {
    if (is_at_run(node)) return nullptr;
    return enter(node, callee(*node.input(0), frame), node.operands().subspan(1), frame);
  }
  if (node.primitive() != Primitive::Operation) return nullptr;
  const Application application = application_of(rewriter_.context(), node);
  const Graph* function = library_ ? library_->meaning(application.op) : nullptr;
  if (!function) return nullptr;
  Frame* made = enter(node, *function, application.inputs, frame);
  made->op = &application.op;
  made->attributes = attributes_of(node, application.op, frame);
  return made;
}

Instance::Frame* Instance::enter(const Apply& node, const Graph& function, std::span<const Use> arguments,
                                 Frame* frame) {
  Frame* outer = frame;
  while (outer && outer->graph != function.parent()) outer = outer->outer;
  const Frame* operation = frame->op ? frame : frame->operation;
  Frame& made = frames_.emplace_back(Frame{.graph = &function, .target = frame->target, .outer = outer, .operation = operation});
  for (const Use& use : arguments) made.arguments.push_back({use.node, frame});
  return frame->calls[&node] = &made;
}

// The function that is called; of a choice, the one taken.
const Graph& Instance::callee(const Node& node, Frame* frame) {
  if (const Graph* function = constant_function(&node)) return *function;
  const Apply* choice = node.as(Primitive::Switch);
  if (!choice) {
    throw Error(ErrorCode::Internal, "a function of a library calls what is no function").at_node(describe(node));
  }
  auto condition = known(value({choice->input(0), frame}));
  if (!condition || condition->size() != 1) {
    const Location* place = choice->location();
    throw Refusal{fmt::format("the condition {} is not known", place ? to_string(*place) : describe(*choice))};
  }
  return callee(*choice->input(condition->data<bool>()[0] ? 1 : 2), frame);
}

// Values -------------------------------------------------------------------------------------------------------------

// Item i of a tuple.
Node* Instance::item(Place place, size_t i) {
  auto [node, frame] = place;
  if (!frame) {
    rewriter_.make_in(*rewriter_.root().graph());
    return rewriter_.item(const_cast<Node*>(node), i);
  }
  if (const Parameter* parameter = node->as_parameter()) return item(argument(*parameter, frame_of(*node, frame)), i);
  frame = frame_of(*node, frame);
  const Apply& apply = *node->as_apply();
  if (apply.primitive() == Primitive::MakeTuple) {
    if (i >= apply.num_inputs()) throw Refusal{fmt::format("result {} is not supported", i)};
    return value({apply.input(i), frame});
  }
  if (Frame* made = called(apply, frame)) return item({made->graph->result(), made}, i);
  Node* whole = value(place);
  rewriter_.make_in(*frame->target);
  return rewriter_.item(whole, i);
}

Node* Instance::value(Place place) {
  auto [node, frame] = place;
  if (!frame) return const_cast<Node*>(node);
  if (const Value* value = node->as_value()) {
    if (value->is_tensor()) return rewriter_.constant(value->tensor());
    return value->is_type() ? rewriter_.module().type(value->described()) : rewriter_.module().none();
  }
  frame = frame_of(*node, frame);
  if (const Parameter* parameter = node->as_parameter()) return value(argument(*parameter, frame));
  if (auto known = frame->values.find(node); known != frame->values.end()) return known->second;
  Node* computed = compute(*node->as_apply(), frame);
  frame->values[node] = computed;
  return computed;
}

Node* Instance::compute(const Apply& node, Frame* frame) {
  if (node.primitive() == Primitive::TupleGetItem) {
    return item({node.input(0), frame}, static_cast<size_t>(node.attributes().require_int("index")));
  }
  if (node.primitive() == Primitive::MakeTuple) {
    std::vector<Node*> items;
    for (const Use& use : node.operands()) items.push_back(value({use.node, frame}));
    rewriter_.make_in(*frame->target);
    return rewriter_.tuple(items);
  }
  if (Frame* made = called(node, frame)) return value({made->graph->result(), made});
  if (node.primitive() == Primitive::Call) return call_at_run(node, frame);
  if (node.is(kAttributeOf)) return attribute_of(*frame, node.attributes().get_string("name", ""));
  if (node.is(kUnreachable)) throw Refusal{node.attributes().get_string("reason", "")};
  if (node.is(kIsKnown)) {
    return rewriter_.constant(Tensor::scalar<bool>(known(value({node.input(0), frame})).has_value()));
  }
  if (node.is(kHolds)) return rewriter_.constant(Tensor::scalar<bool>(holds(node, frame)));
  if (node.is(kSumOf)) return sensitivities_->sum_of(value({node.input(0), frame}), value({node.input(1), frame}));
  if (node.is(kZerosOf)) return sensitivities_->zeros_of(value({node.input(0), frame}));
  const Application application = application_of(rewriter_.context(), node);
  std::vector<Node*> inputs;
  for (const Use& use : application.inputs) {
    Node* input = value({use.node, frame});
    const Formal* last = application.op.inputs.empty() ? nullptr : &application.op.inputs.back();
    const bool is_list = last && last->arity == Formal::Arity::Variadic && input->type() && input->type()->is_tuple();
    rewriter_.make_in(*frame->target);
    for (size_t i = 0; is_list && i < input->type()->elements().size(); ++i) inputs.push_back(rewriter_.item(input, i));
    if (!is_list) inputs.push_back(input);
  }
  AttributeSet attributes = attributes_of(node, application.op, frame);
  rewriter_.make_in(*frame->target);
  return made(application.op, std::move(inputs), std::move(attributes), node.num_outputs());
}

// What is left to the run ----------------------------------------------------------------------------------------------

Node* Instance::call_at_run(const Apply& node, Frame* frame) {
  Module& module = rewriter_.module();
  std::vector<Node*> arguments;
  Node* callee = nullptr;
  const Type* type = nullptr;
  if (const Graph* function = constant_function(node.input(0))) {
    const auto operands = node.operands().subspan(1);
    auto made = loops_.find(function);
    Graph* loop = made != loops_.end() ? made->second : loop_at_run(*function, operands, frame);
    for (size_t i = 0; i < operands.size(); ++i) {
      if (is_invariant(*function, i)) continue;
      const Parameter* parameter = loop->parameter(arguments.size());
      arguments.push_back(value({operands[i].node, frame}));
      if (arguments.back()->type() != parameter->type()) varying_.insert(function->parameter(i));
    }
    callee = loop->value();
    if (loop->return_node()) type = loop->result()->type();
  } else {
    const Apply& choice = *choice_at_run(node.input(0));
    Node* condition = value({choice.input(0)->as_apply()->input(0), frame});
    Node* branches[2];
    for (size_t i = 0; i < 2; ++i) {
      const Graph& branch = *constant_function(choice.input(i + 1));
      Graph* made = module.make_graph(branch.name(), frame->target);
      fill(*made, frames_.emplace_back(Frame{.graph = &branch, .target = made, .outer = frame, .operation = frame->op ? frame : frame->operation}));
      branches[i] = made->value();
      if (!type || type->is_unreachable()) type = made->result()->type();
    }
    callee = module.make_switch(frame->target, condition, branches[0], branches[1]);
  }
  Apply* call = module.call(frame->target, callee, arguments);
  call->set_location(rewriter_.root().location());
  call->set_type(type);
  return call;
}

// The loop that a function is for its invariant arguments. Its parameters have the types of the others until inference finds them, but for
// sizes that an iteration changes: choices inside would be made by those of the first one.
Graph* Instance::loop_at_run(const Graph& function, std::span<const Use> arguments, Frame* frame) {
  Module& module = rewriter_.module();
  auto num_varying = [&] { return std::ranges::count_if(function.parameters(), [&](const Parameter* p) { return varying_.contains(p); }); };
  Graph* loop = nullptr;
  std::ptrdiff_t before;
  do {
    before = num_varying();
    if (loop) module.set_result(loop, module.none());
    loop = module.make_graph(function.name(), frame->target);
    Frame& inside = frames_.emplace_back(Frame{.graph = &function, .target = loop, .operation = frame->op ? frame : frame->operation});
    for (size_t i = 0; i < arguments.size(); ++i) {
      const Place given{arguments[i].node, frame};
      if (is_invariant(function, i)) {
        inside.arguments.push_back(given);
        continue;
      }
      const Parameter* parameter = function.parameter(i);
      const Type* type = value(given)->type();
      if (varying_.contains(parameter)) type = analysis::without_sizes(module.context(), type);
      inside.arguments.push_back({module.add_parameter(loop, type, parameter->name()), nullptr});
    }
    loops_.emplace(&function, loop);
    fill(*loop, inside);
    loops_.erase(&function);
  } while (num_varying() > before);
  for (const Parameter* parameter : function.parameters()) varying_.erase(parameter);
  rewriter_.inference().forget(*loop);
  return loop;
}

// A function that is refused has no result that is used.
void Instance::fill(Graph& made, Frame& frame) {
  try {
    rewriter_.module().set_result(&made, value({frame.graph->result(), &frame}));
  } catch (const Refusal&) {
    rewriter_.module().set_result(&made, rewriter_.module().none());
    throw;
  }
}

// What a guard of a rule may ask.
bool Instance::holds(const Apply& node, Frame* frame) {
  const std::string name = node.attributes().get_string("fact", "");
  const Function* fact = find_function(name);
  const auto given = static_cast<int>(node.num_inputs());
  if (!fact || given < fact->least || (fact->most >= 0 && given > fact->most)) {
    throw Error(ErrorCode::Internal, fmt::format("there is no {} of {} operands", name, given)).at_node(describe(node));
  }
  std::vector<Quantity> arguments;
  for (const Use& use : node.operands()) arguments.emplace_back(value({use.node, frame}));
  const Match match(SlotCounts{});
  return is_true(fact->call(Scope(rewriter_, match), arguments));
}

// An application; a constant where it is known.
Node* Instance::made(const Operator& op, std::vector<Node*> inputs, AttributeSet attributes, size_t num_outputs) {
  while (!inputs.empty() && inputs.back()->as_value() && inputs.back()->as_value()->is_none()) inputs.pop_back();
  const Type* like = op.qualified == "CastLike" ? inputs[1]->type() : nullptr;
  if (like && like->is_tensor() && like->dtype() != DType::Undefined) {
    const Type* type = inputs[0]->type();
    if (type && type->is_tensor() && type->dtype() == like->dtype()) return inputs[0];
    const AttributeSet to{{"to", static_cast<int64_t>(like->dtype())}};
    return made(rewriter_.context().get_operator("Cast"), {inputs[0]}, to, 1);
  }
  Apply* node = rewriter_.apply(op, inputs, attributes, num_outputs);
  if (num_outputs != 1) return node;
  if (auto tensor = known(node)) return rewriter_.constant(std::move(*tensor));
  return node;
}

// What a node is before the run, as far as it is small.
std::optional<Tensor> Instance::known(const Node* node) const {
  if (const Tensor* constant = constant_tensor(node)) return *constant;
  const Apply* apply = node->as_apply();
  if (!apply || !is_small(apply->type())) return std::nullopt;
  if (auto elements = analysis::known_elements(rewriter_.inference(), *apply)) return elements;
  // What is stored quantized stays so, as in the pass `fold`.
  if (apply->is("DequantizeLinear") || apply->op().effect != Effect::Pure) return std::nullopt;
  if (!ops::reference_kernel(apply->op())) return std::nullopt;
  std::vector<Datum> inputs;
  for (const Use& use : apply->operands()) {
    const Value* value = use.node->as_value();
    if (!value || (value->is_tensor() && value->tensor().size() > kMostKnown)) return std::nullopt;
    inputs.push_back(value->is_tensor() ? Datum(value->tensor()) : Datum());
  }
  try {
    Tensor result = analysis::evaluate_operator(apply->op(), apply->attributes(), inputs, 1)[0].tensor();
    if (result.size() > kMostKnown) return std::nullopt;
    return result;
  } catch (const Error&) {
    return std::nullopt;  // the kernel lacks the type, or the run will tell
  }
}

// Attributes ---------------------------------------------------------------------------------------------------------

Node* Instance::attribute_of(const Frame& frame, std::string_view name) {
  const Frame& operation = frame.op ? frame : *frame.operation;
  if (const AttributeValue* given = operation.attributes.find(name)) return rewriter_.constant(to_tensor(*given));
  const AttributeDeclaration* declared = operation.op->find_attribute(name);
  if (declared && declared->otherwise) return rewriter_.constant(to_tensor(*declared->otherwise));
  return rewriter_.module().none();
}

// Of those that are operands, what is none or the operator's default is left out.
AttributeSet Instance::attributes_of(const Apply& node, const Operator& op, Frame* frame) {
  if (!node.is(kWithAttributes)) return node.attributes();
  const std::vector<std::string> names = node.attributes().get_strings("names");
  std::vector<AttributeSet::Entry> entries;
  for (size_t i = 0; i < names.size(); ++i) {
    Node* operand = value({node.input(node.num_inputs() - names.size() + i), frame});
    if (const Value* constant = operand->as_value(); constant && constant->is_none()) continue;
    const AttributeDeclaration* declared = op.find_attribute(names[i]);
    const Tensor* tensor = constant_tensor(operand);
    auto value = declared && tensor ? attribute_value(*tensor, declared->kind) : std::nullopt;
    if (!value) throw Refusal{fmt::format("the attribute {} of {} is not known", names[i], op.qualified)};
    if (declared->otherwise && identical(*value, *declared->otherwise)) continue;
    entries.emplace_back(names[i], std::move(*value));
  }
  return AttributeSet(std::move(entries));
}

}  // namespace anfora::rewrite
