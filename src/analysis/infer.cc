#include "analysis/infer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "anfora/error.h"
#include "support/cancellation.h"
#include "support/element_types.h"

namespace anfora::analysis {

using namespace ir;
using ops::Dims;

namespace {

// Rounds that a module of any sane nesting needs; reaching it is a defect of the widening.
constexpr int kMostRounds = 256;

uint64_t key(const Node* node, size_t output) { return (static_cast<uint64_t>(node->id()) << 16) | output; }

std::optional<Dims> elements_of_constant(DimTable& dims, const Tensor& tensor) {
  if (tensor.rank() > 1 || tensor.size() > static_cast<int64_t>(ops::kMostTrackedElements)) return std::nullopt;
  if (tensor.dtype() == DType::Bool) {
    Dims elements;
    for (bool v : tensor.data<bool>()) elements.push_back(dims.constant(v));
    return elements;
  }
  if (!is_integer(tensor.dtype()) || is_sub_byte(tensor.dtype())) return std::nullopt;
  return dispatch<Integers>(tensor.dtype(), [&]<class T>() -> std::optional<Dims> {
    Dims elements;
    for (T v : tensor.data<T>()) {
      if (!std::in_range<int64_t>(v)) return std::nullopt;
      elements.push_back(dims.constant(static_cast<int64_t>(v)));
    }
    return elements;
  });
}

// Throws unless the operands' dtypes fit the declared type variables.
void check_operand_types(const Operator& op, const Apply& node) {
  struct Binding {
    const TypeVariable* variable;
    DType dtype;
  };
  boost::container::small_vector<Binding, 4> bound;
  for (size_t i = 0; i < node.num_inputs(); ++i) {
    if (op.inputs.empty()) return;
    const Formal& formal = op.inputs[std::min(i, op.inputs.size() - 1)];
    const Type* type = node.input(i)->type();
    if (!type || !type->is_tensor() || type->dtype() == DType::Undefined) continue;
    auto variable = std::ranges::find(op.variables, formal.type, &TypeVariable::name);
    if (variable == op.variables.end() || variable->dtypes.empty()) continue;
    if (!std::ranges::count(variable->dtypes, type->dtype())) {
      throw Error(ErrorCode::TypeMismatch, fmt::format("input {} ('{}') is {}, which the operator does not take", i,
                                                       formal.name, name(type->dtype())));
    }
    auto known = std::ranges::find(bound, &*variable, &Binding::variable);
    if (known == bound.end()) {
      bound.push_back({&*variable, type->dtype()});
    } else if (known->dtype != type->dtype()) {
      throw Error(ErrorCode::TypeMismatch, fmt::format("input {} ('{}') is {}, another input of the same type is {}", i,
                                                       formal.name, name(type->dtype()), name(known->dtype)));
    }
  }
}

void check_arity(const Operator& op, const Apply& node) {
  if (!op.known) return;
  const auto [least, most] = arity_of(op.inputs);
  size_t given = node.num_inputs();
  if (given < least || given > most) {
    throw Error(ErrorCode::InvalidModel,
                fmt::format("{} inputs given, {} {} needed", given, given < least ? "at least" : "at most",
                            given < least ? least : most));
  }
  for (size_t i = 0; i < std::min(least, op.inputs.size()); ++i) {
    if (op.inputs[i].arity == Formal::Arity::Required && !node.has_input(i)) {
      throw Error(ErrorCode::InvalidModel,
                  fmt::format("the required input {} ('{}') is missing", i, op.inputs[i].name));
    }
  }
}

}  // namespace

// One application as its declaration sees it.
class Inference::Context : public ops::InferenceContext {
 public:
  Context(Inference& engine, const Apply& node)
      : InferenceContext(engine.module_.context(), node.op(), node.attributes()), engine_(engine), node_(node) {
    outputs_.resize(node.num_outputs());
  }

  size_t num_inputs() const override { return node_.num_inputs(); }
  size_t num_outputs() const override { return node_.num_outputs(); }
  const Type* input(size_t i) const override {
    if (i >= node_.num_inputs()) return context().none_type();
    Graph* function = constant_function(node_.input(i));
    return function && function->return_node() ? engine_.function_type(*function, engine_.result_of(*function)) : node_.input(i)->type();
  }
  const Tensor* constant(size_t i) const override {
    return i < node_.num_inputs() ? constant_tensor(node_.input(i)) : nullptr;
  }
  std::optional<Dims> elements(size_t i) const override {
    return i < node_.num_inputs() ? engine_.elements(node_.input(i)) : std::nullopt;
  }
  void set_output(size_t i, const Type* type) override {
    if (i < outputs_.size()) outputs_[i] = type;
  }
  void set_elements(size_t i, Dims elements) override {
    bool kept =
        i < outputs_.size() && elements.size() <= ops::kMostTrackedElements && cannot_wrap(outputs_[i], elements);
    if (kept) engine_.elements_[key(&node_, i)] = std::move(elements);
  }
  const Type* output(size_t i) const override {
    if (!node_.type() || i >= node_.num_outputs()) return context().none_type();
    return node_.num_outputs() == 1 ? node_.type() : node_.type()->element(i);
  }
  Dim fresh_dim(size_t index) override { return engine_.fresh_dim(node_, index); }

  // Dimensions do not wrap around, as integers of fewer bits do.
  static bool cannot_wrap(const Type* type, const Dims& elements) {
    if (!type || !type->is_tensor()) return true;
    if (type->dtype() == DType::I64 || type->dtype() == DType::Bool || type->dtype() == DType::Undefined) return true;
    if (type->dtype() != DType::I32) return false;
    return std::ranges::all_of(elements, [](Dim dim) {
      auto constant = dim.as_constant();
      return !constant || std::in_range<int32_t>(*constant);
    });
  }
  // The node's type from what was set; null where the declaration said nothing.
  std::span<const Type*> outputs() { return {outputs_.data(), outputs_.size()}; }

 private:
  Inference& engine_;
  const Apply& node_;
  boost::container::small_vector<const Type*, 4> outputs_;
};

std::optional<Dims> Inference::elements(const Node* node, size_t output) const {
  if (const Tensor* tensor = constant_tensor(node)) return elements_of_constant(module_.context().dims(), *tensor);
  if (const Apply* item = node->as(Primitive::TupleGetItem)) {
    node = item->input(0);
    output = static_cast<size_t>(item->attributes().require_int("index"));
  }
  auto found = elements_.find(key(node, output));
  return found == elements_.end() ? std::nullopt : std::optional(found->second);
}

Dim Inference::fresh_dim(const Node& node, size_t index) {
  Dim symbol = module_.context().dims().symbol(fmt::format("_{}_{}", node.id(), index));
  symbol_owner_.try_emplace(symbol.expr(), node.graph());
  return symbol;
}

// Replaces each `?` in the type by a symbol of the node's own.
void Inference::name_unknown_dims(const Node& node, const Type*& type, size_t& next_index) {
  if (!type || !type->is_tensor() || !type->has_rank()) return;
  if (std::ranges::none_of(type->dims(), &Dim::is_unknown)) return;
  Dims dims;
  // Indices from a base of their own, apart from those a declaration asks for by fresh_dim().
  constexpr size_t kNamedFrom = 100;
  for (Dim d : type->dims()) dims.push_back(d.is_unknown() ? fresh_dim(node, kNamedFrom + next_index++) : d);
  type = module_.context().tensor_type(type->dtype(), std::span<const Dim>(dims.data(), dims.size()));
}

// Rebuilds a type with each dimension mapped; the same pointer when nothing changes.
template <class F>
static const Type* map_dims(ir::Context& context, const Type* type, F&& f) {
  if (!type) return type;
  switch (type->kind()) {
    case TypeKind::Tensor: {
      if (!type->has_rank() || type->dims().empty()) return type;
      Dims dims;
      for (Dim d : type->dims()) dims.push_back(f(d));
      return context.tensor_type(type->dtype(), std::span<const Dim>(dims.data(), dims.size()));
    }
    case TypeKind::Tuple: {
      boost::container::small_vector<const Type*, 8> items;
      for (const Type* t : type->elements()) items.push_back(map_dims(context, t, f));
      return context.tuple_type({items.data(), items.size()});
    }
    case TypeKind::Sequence: return context.sequence_type(map_dims(context, type->element(), f));
    case TypeKind::Optional: return context.optional_type(map_dims(context, type->element(), f));
    case TypeKind::Type: return context.type_type(map_dims(context, type->element(), f));
    default: return type;
  }
}

const Type* Inference::erase_symbols_of(const Type* type, const Graph& graph) {
  if (symbol_owner_.empty()) return type;
  DimTable& table = module_.context().dims();
  return map_dims(module_.context(), type, [&](Dim d) {
    bool local = false;
    for_each_symbol(d, [&](Dim symbol) {
      auto owner = symbol_owner_.find(symbol.expr());
      if (owner != symbol_owner_.end() && owner->second && owner->second->is_inside(&graph)) local = true;
    });
    return local ? table.unknown() : d;
  });
}

// The least type above both; null is bottom, as is Unreachable. Dimensions that differ become unknown (widening).
const Type* Inference::join(const Type* a, const Type* b) {
  if (!a || a == b) return b;
  if (!b) return a;
  if (a->is_unreachable()) return b->is_unreachable() && b->reason().empty() ? a : b;
  if (b->is_unreachable()) return a;
  ir::Context& context = module_.context();
  // An absent optional joins with a present value to an optional of it.
  if (a->is_none() || b->is_none()) {
    const Type* present = a->is_none() ? b : a;
    return present->kind() == TypeKind::Optional ? present : context.optional_type(present);
  }
  if (a->kind() == TypeKind::Optional || b->kind() == TypeKind::Optional) {
    const Type* x = a->kind() == TypeKind::Optional ? a->element() : a;
    const Type* y = b->kind() == TypeKind::Optional ? b->element() : b;
    return context.optional_type(join(x, y));
  }
  if (a->kind() != b->kind()) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("{} and {} meet in one value", to_string(a), to_string(b)));
  }
  switch (a->kind()) {
    case TypeKind::Tensor: {
      DType dtype = a->dtype() == b->dtype() ? a->dtype() : DType::Undefined;
      if (!a->has_rank() || !b->has_rank() || a->rank() != b->rank()) return context.unranked_type(dtype);
      Dims dims;
      for (int i = 0; i < a->rank(); ++i) {
        dims.push_back(provably_equal(a->dim(i), b->dim(i)) ? a->dim(i) : context.dims().unknown());
      }
      return context.tensor_type(dtype, std::span<const Dim>(dims.data(), dims.size()));
    }
    case TypeKind::Tuple: {
      if (a->elements().size() != b->elements().size()) {
        throw Error(ErrorCode::TypeMismatch, fmt::format("{} and {} meet in one value", to_string(a), to_string(b)));
      }
      boost::container::small_vector<const Type*, 8> items;
      for (size_t i = 0; i < a->elements().size(); ++i) items.push_back(join(a->element(i), b->element(i)));
      return context.tuple_type({items.data(), items.size()});
    }
    case TypeKind::Sequence: return context.sequence_type(join(a->element(), b->element()));
    case TypeKind::Type: return context.type_type(join(a->element(), b->element()));
    default: return a;
  }
}

std::vector<Graph*> Inference::functions_at(const Node* node, const Path& path) const {
  std::vector<Graph*> found;
  auto add = [&](Graph* graph) {
    if (!std::ranges::count(found, graph)) found.push_back(graph);
  };
  boost::container::small_vector<std::pair<const Node*, Path>, 4> pending{{node, path}};
  while (!pending.empty()) {
    auto [n, at] = std::move(pending.back());
    pending.pop_back();
    const Apply* apply = n->as_apply();
    if (Graph* graph = constant_function(n)) {
      add(graph);
    } else if (auto known = functions_.find({n->id(), at}); known != functions_.end()) {
      std::ranges::for_each(known->second, add);
    } else if (!apply) {
      continue;
    } else if (apply->primitive() == Primitive::Switch) {
      if (const Node* taken = taken_branch(*apply)) {
        pending.emplace_back(taken, at);
      } else if (is_reached(apply->input(0)->type())) {  // a condition that is never computed chooses nothing
        pending.emplace_back(apply->input(2), at);
        pending.emplace_back(apply->input(1), at);
      }
    } else if (apply->primitive() == Primitive::MakeTuple) {
      if (at.empty() || at[0] >= apply->num_inputs()) continue;
      pending.emplace_back(apply->input(at[0]), Path(at.begin() + 1, at.end()));
    } else if (apply->primitive() == Primitive::TupleGetItem) {
      at.insert(at.begin(), static_cast<uint32_t>(apply->attributes().require_int("index")));
      pending.emplace_back(apply->input(0), std::move(at));
    }
  }
  return found;
}

Node* Inference::taken_branch(const Apply& choice) const {
  const Node* condition = choice.input(0);
  if (const Tensor* constant = constant_tensor(condition)) {
    if (constant->dtype() != DType::Bool || constant->size() != 1) return nullptr;
    return choice.input(constant->data<bool>()[0] ? 1 : 2);
  }
  auto known = elements(condition);
  if (!known || known->size() != 1 || !(*known)[0].is_constant()) return nullptr;
  return choice.input((*known)[0].constant() != 0 ? 1 : 2);
}

// Calls f(path) for each function in a type.
template <class F>
void Inference::for_each_function(const Type* type, Path& path, F&& f) {
  if (!type || !type->holds_functions()) return;
  if (type->is_func()) return f(std::as_const(path));
  for (size_t i = 0; i < type->elements().size(); ++i) {
    const bool is_place = type->kind() != TypeKind::Optional;
    if (is_place) path.push_back(static_cast<uint32_t>(i));
    for_each_function(type->element(i), path, f);
    if (is_place) path.pop_back();
  }
}
template <class F>
void Inference::for_each_function(const Type* type, F&& f) {
  Path path;
  for_each_function(type, path, f);
}

void Inference::add_functions(const Node& node, const Path& path, const Node& from, const Path& from_path) {
  for (Graph* graph : functions_at(&from, from_path)) {
    std::vector<Graph*>& known = functions_[{node.id(), path}];
    if (std::ranges::count(known, graph)) continue;
    known.push_back(graph);
    changed_ = true;
  }
}

// The functions in `node` are those in another node, of which it is a value.
void Inference::take_functions(const Node& node, const Node& from) {
  for_each_function(from.type(), [&](const Path& path) { add_functions(node, path, from, path); });
}

// An operator on structures computes no function. What it gives at one place was at a place that ends, or goes on, alike: items
// of a sequence are taken as they are put there.
void Inference::take_functions_of_operands(const Apply& node) {
  auto ends_with = [](const Path& path, const Path& end) {
    return path.size() >= end.size() && std::equal(end.rbegin(), end.rend(), path.rbegin());
  };
  for_each_function(node.type(), [&](const Path& path) {
    for (const Use& use : node.operands()) {
      for_each_function(use.node->type(), [&](const Path& from) {
        if (ends_with(path, from) || ends_with(from, path)) add_functions(node, path, *use.node, from);
      });
    }
  });
}

Inference::Mark& Inference::mark(const Node* node) {
  if (node->id() >= marks_.size()) marks_.resize(module_.next_id(), Mark::Unvisited);
  return marks_[node->id()];
}

void Inference::run() {
  Graph* main = module_.main();
  if (!main || !main->result()) throw Error(ErrorCode::InvalidModel, "the module has no main graph");
  for (Parameter* p : main->parameters()) {
    if (!p->type()) p->set_type(module_.context().unranked_type(DType::Undefined));
    const Type* type = p->type();
    size_t index = 0;
    name_unknown_dims(*p, type, index);
    p->set_type(type);
  }
  for (Graph* graph : module_.graphs()) graph->value()->set_type(some_function());  // exactly at the end
  for (int rounds = 0; round(); ++rounds) {
    if (rounds == kMostRounds) throw Error(ErrorCode::Internal, "type inference does not converge");
  }
  if (unresolved_) {
    Error error(ErrorCode::Unsupported, "the function that is called here is not known");
    error.with_hint("functions may be constants, parameters, parts of structures, and what a Switch or a call gives");
    error.at_node(describe(*unresolved_));
    if (unresolved_->location()) error.at_location(to_string(*unresolved_->location()));
    throw error;
  }
  throw_if_certain();
  type_unreached_graphs();
  type_functions();
}

void Inference::forget(Graph& function) {
  for (auto& [where, known] : functions_) std::erase_if(known, [&](const Graph* graph) { return graph->is_inside(&function); });
  for (Graph* graph : module_.graphs()) {
    if (!graph->is_inside(&function)) continue;
    for (Parameter* parameter : graph->parameters()) joined_.erase(parameter);
    if (graph->return_node()) graph->return_node()->set_type(module_.context().unreachable_type());
  }
}

// What is not computed by every run does no harm where it is refused.
void Inference::throw_if_certain() const {
  const Graph* main = module_.main();
  const Type* result = main->return_node()->type();
  for (const auto& [node, error] : refused_) {
    if (node->graph() == main || node->type() == result) throw Error(error);
  }
  if (!is_reached(result)) {
    throw Error(ErrorCode::InvalidModel, "the result is never computed: a loop or recursion in it has no exit");
  }
}

// Functions that are values and never called.
void Inference::type_unreached_graphs() {
  for (Graph* graph : module_.graphs()) {
    if (!graph->value()->has_uses() || mark(graph->return_node()) != Mark::Unvisited) continue;
    for (Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
      node->set_type(module_.context().unreachable_type());
    }
  }
}

// One pass over everything reachable; true when another is needed.
bool Inference::round() {
  check_cancelled();
  changed_ = false;
  marks_.assign(module_.next_id(), Mark::Unvisited);
  result_read_.clear();
  elements_.clear();
  unresolved_ = nullptr;
  refused_.clear();
  visit(module_.main()->return_node());
  for (auto& [graph, type] : result_read_) {
    const Node* result = graph->return_node();
    if (result->type() && erase_symbols_of(result->type(), *graph) != type) changed_ = true;
  }
  return changed_;
}

// Depth first over operands, and over the functions that a call reaches once its arguments are known. A node that is
// needed while it is active is a recursive call's callee: its type of the previous round is used.
void Inference::visit(Node* root) {
  auto push = [&](Node* node) {
    if (!node->is_apply() || mark(node) != Mark::Unvisited) return;
    mark(node) = Mark::Active;
    prefetch_before(*node);
    stack_.push_back({node});
  };
  push(root);
  while (!stack_.empty()) {
    Frame& frame = stack_.back();
    Apply& node = *frame.node->as_apply();
    if (frame.next < node.num_inputs()) {
      push(node.input(frame.next++));
      continue;
    }
    try {
      if (node.primitive() == Primitive::Call) {
        size_t callee = frame.next - node.num_inputs();
        std::vector<Graph*> targets = callees(node.input(0));
        if (callee < targets.size()) {
          ++frame.next;
          bind_arguments(node.operands().subspan(1), *targets[callee]);
          push(targets[callee]->return_node());
          continue;
        }
      } else if (const size_t count = num_function_operands(node); frame.next < node.num_inputs() + count) {
        const size_t i = frame.next++ - node.num_inputs();
        Graph& function = *constant_function(node.input(i));
        if (i == 0) bind_arguments(node.operands().subspan(count), function);
        push(function.return_node());
        continue;
      }
      finish(node);
    } catch (Error& error) {
      refuse(node, error);
    }
    mark(&node) = Mark::Done;
    stack_.pop_back();
  }
}

void Inference::refuse(Apply& node, Error& error) {
  error.at_node(describe(node));
  if (node.location()) error.at_location(to_string(*node.location()));
  if (error.code() == ErrorCode::Internal || error.code() == ErrorCode::ResourceExhausted) throw Error(error);
  node.set_type(module_.context().unreachable_type(error.what()));
  refused_.emplace_back(&node, error);
}

// Of an operator that calls: the parameters of the first one have the types of the arguments, those of others what was given to them when they
// were made.
size_t Inference::num_function_operands(const Apply& node) {
  size_t count = 0;
  if (!node.op().calls) return 0;
  while (count < node.num_inputs() && constant_function(node.input(count))) ++count;
  return count;
}

void Inference::bind_arguments(std::span<const Use> arguments, Graph& callee) {
  if (!callee.return_node())
    throw Error(ErrorCode::InvalidModel, fmt::format("graph @{} has no result", callee.name()));
  const size_t given = arguments.size();
  if (given != callee.parameters().size()) {
    throw Error(ErrorCode::TypeMismatch, fmt::format("graph @{} takes {} arguments, {} are given", callee.name(),
                                                     callee.parameters().size(), given));
  }
  for (size_t i = 0; i < given; ++i) {
    Parameter* parameter = callee.parameter(i);
    Node* argument = arguments[i].node;
    take_functions(*parameter, *argument);
    const Type*& joined = joined_[parameter];
    const Type* type = join(joined, erase_symbols_of(argument->type(), callee));
    if (type == joined) continue;
    joined = type;
    size_t index = 0;
    name_unknown_dims(*parameter, type, index);
    parameter->set_type(type);
    changed_ = changed_ || mark(callee.return_node()) != Mark::Unvisited;
  }
}

const Type* Inference::result_of(Graph& callee) {
  const Type* type = erase_symbols_of(callee.return_node()->type(), callee);
  auto [read, first] = result_read_.try_emplace(&callee, type);
  if (!first && read->second != type) read->second = nullptr;  // read twice, differently: go round again
  return type;
}

void Inference::finish_call(Apply& call) {
  std::vector<Graph*> targets = callees(call.input(0));
  if (targets.empty()) {
    if (!unresolved_) unresolved_ = &call;
    return call.set_type(module_.context().unreachable_type());
  }
  const Type* type = module_.context().unreachable_type();  // as long as no base case of a recursion is reached
  for (Graph* target : targets) type = join(type, result_of(*target));
  size_t index = 0;
  if (type->is_tuple()) {
    boost::container::small_vector<const Type*, 8> items(type->elements().begin(), type->elements().end());
    for (const Type*& item : items) name_unknown_dims(call, item, index);
    type = module_.context().tuple_type({items.data(), items.size()});
  } else {
    name_unknown_dims(call, type, index);
  }
  call.set_type(type);
  for (Graph* target : targets) take_functions(call, *target->return_node());
}

// The type of the first operand that no run computes; null: there is none.
const Type* Inference::unreached_operand(const Apply& node) const {
  for (const Use& use : node.operands()) {
    const Type* type = use.node->type();
    if (!is_reached(type)) return type ? type : module_.context().unreachable_type();
  }
  if (num_function_operands(node) > 0) {
    const Type* result = constant_function(node.input(0))->return_node()->type();
    if (!is_reached(result)) return result ? result : module_.context().unreachable_type();
  }
  return nullptr;
}

void Inference::finish(Apply& node) {
  if (const Type* bottom = unreached_operand(node)) return node.set_type(bottom);
  switch (node.primitive()) {
    case Primitive::Return:
      node.set_type(node.input(0)->type());
      return take_functions(node, *node.input(0));
    case Primitive::Call: finish_call(node); return;
    case Primitive::Switch: node.set_type(some_function()); return;
    case Primitive::MakeTuple: {
      boost::container::small_vector<const Type*, 8> items;
      for (const Use& use : node.operands()) items.push_back(use.node->type());
      node.set_type(module_.context().tuple_type({items.data(), items.size()}));
      return;
    }
    case Primitive::TupleGetItem: {
      const Type* tuple = node.input(0)->type();
      int64_t index = node.attributes().require_int("index");
      if (!tuple->is_tuple() || index < 0 || index >= static_cast<int64_t>(tuple->elements().size())) {
        throw Error(ErrorCode::TypeMismatch, fmt::format("item {} is taken of {}", index, to_string(tuple)));
      }
      node.set_type(tuple->element(static_cast<size_t>(index)));
      return;
    }
    case Primitive::Operation: infer(node); return take_functions_of_operands(node);
  }
}

void Inference::infer(Apply& node) {
  if (const Type* bottom = unreached_operand(node)) return node.set_type(bottom);
  const Operator& op = node.op();
  if (!op.infer) {
    if (node.type()) return;  // as the source declared it
    const Type* unknown = module_.context().unranked_type(DType::Undefined);
    std::vector<const Type*> items(node.num_outputs(), unknown);
    node.set_type(items.size() == 1 ? unknown : module_.context().tuple_type(items));
    return;
  }
  check_arity(op, node);
  check_operand_types(op, node);
  Context context(*this, node);
  op.infer(context);
  size_t index = 0;
  for (const Type*& type : context.outputs()) {
    if (!type) type = module_.context().unranked_type(DType::Undefined);
    name_unknown_dims(node, type, index);
  }
  node.set_type(node.num_outputs() == 1 ? context.outputs()[0] : module_.context().tuple_type(context.outputs()));
}

double Inference::flops(const Apply& node) {
  if (!node.op().flops || !is_reached(node.type())) return 0;
  Context context(*this, node);
  return node.op().flops(context);
}

// Of which function, the end of the run tells.
const Type* Inference::some_function() const {
  return module_.context().func_type({}, module_.context().unranked_type(DType::Undefined));
}

// A type with the functions in it replaced: by f(path).
template <class F>
const Type* Inference::with_functions(const Type* type, Path& path, F&& f) {
  if (!type || !type->holds_functions()) return type;
  if (type->is_func()) return f(std::as_const(path));
  ir::Context& context = module_.context();
  if (type->kind() == TypeKind::Optional) return context.optional_type(with_functions(type->element(), path, f));
  boost::container::small_vector<const Type*, 8> items;
  for (size_t i = 0; i < type->elements().size(); ++i) {
    path.push_back(static_cast<uint32_t>(i));
    items.push_back(with_functions(type->element(i), path, f));
    path.pop_back();
  }
  return type->is_tuple() ? context.tuple_type({items.data(), items.size()}) : context.sequence_type(items[0]);
}
template <class F>
const Type* Inference::with_functions(const Type* type, F&& f) {
  Path path;
  return with_functions(type, path, f);
}

const Type* Inference::function_type(Graph& graph) {
  return function_type(graph, graph.return_node() ? graph.return_node()->type() : nullptr);
}
const Type* Inference::function_type(Graph& graph, const Type* result) {
  boost::container::small_vector<const Type*, 8> parameters;
  ir::Context& context = module_.context();
  const Type* unknown = context.unranked_type(DType::Undefined);
  // Functions in it stay vague: one that returns itself would have an endless type.
  auto part = [&](const Type* type) {
    return type ? with_functions(type, [&](const Path&) { return some_function(); }) : unknown;
  };
  for (Parameter* p : graph.parameters()) parameters.push_back(part(p->type()));
  return context.func_type({parameters.data(), parameters.size()}, part(result));
}

// The type of a value that is one of several functions: what holds of them all.
const Type* Inference::common_type(std::span<Graph* const> functions) {
  if (functions.empty()) return some_function();
  const Type* common = functions[0]->value()->type();
  for (const Graph* function : functions.subspan(1)) {
    const Type* type = function->value()->type();
    if (type == common) continue;
    if (type->parameters().size() != common->parameters().size()) return some_function();
    boost::container::small_vector<const Type*, 8> parameters;
    try {
      for (size_t i = 0; i < type->parameters().size(); ++i) {
        parameters.push_back(join(common->parameters()[i], type->parameters()[i]));
      }
      common =
          module_.context().func_type({parameters.data(), parameters.size()}, join(common->result(), type->result()));
    } catch (const Error&) {
      return some_function();  // they have nothing in common, which is no error as long as nobody calls the value
    }
  }
  return common;
}

// Whatever is a function, once the functions are typed.
void Inference::type_functions() {
  for (Graph* graph : module_.graphs()) graph->value()->set_type(function_type(*graph));
  auto retype = [&](Node& node) {
    node.set_type(with_functions(node.type(), [&](const Path& path) { return common_type(functions_at(&node, path)); }));
  };
  // Where functions are called and nothing else, there is none among the values.
  auto is_callee = [](const Use& use) { return use.user->primitive() == Primitive::Call && use.index() == 0; };
  bool are_values = std::ranges::any_of(
      module_.graphs(), [&](const Graph* g) { return !std::ranges::all_of(g->value()->uses(), is_callee); });
  for (Graph* graph : module_.graphs()) {
    for (Parameter* parameter : graph->parameters()) retype(*parameter);
    for (Apply* node = graph->first_node(); node && are_values; node = node->next_in_graph()) retype(*node);
  }
}

const Type* without_sizes(ir::Context& context, const Type* type) {
  return map_dims(context, type, [&](Dim) { return context.dims().unknown(); });
}

void infer_types(Module& module) { Inference(module).run(); }

}  // namespace anfora::analysis
