// Calls: of functions of the program, recursive ones too, and of operators.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "anfora/error.h"
#include "frontend/python/lower/activation.h"
#include "frontend/python/lower/builtins.h"
#include "frontend/python/lower/union.h"
#include "frontend/python/propagate.h"

namespace anfora::python {

using ir::Node;

// A function that calls itself, as one of the IR. What its arguments and results are is found by lowering it until both rest.
struct Lowering::Recursion {
  const Closure* closure = nullptr;
  ir::Graph* graph = nullptr;
  std::vector<State> calls;  // their arguments, and what is in the cells, for the types
  std::set<size_t> cells;    // whose content it changes: further parameters and results
  std::vector<Leaf> parameters;
  std::optional<Object> result;        // of the lowering before this one, for its type
  std::map<size_t, Object> contents;  // the same of the cells
  bool is_again = false;
  Recursion* outer = nullptr;
};

namespace {

// Whether there is, or may be, a tensor that others see the memory of.
bool holds_tensor(const Object& object) {
  if (const auto* array = object.as<Array>()) return !array->is_number;
  if (const auto* set = object.as<SetObject>()) return holds_tensor({set->items});
  return object.suspended() || (object.tuple() && std::ranges::any_of(object.tuple()->items, holds_tensor));
}

}  // namespace

Object Lowering::call(const Object& callee, Arguments arguments) {
  if (const Closure* closure = callee.closure()) return call_closure(*closure, std::move(arguments));
  if (const Choice* choice = callee.choice()) return call_choice(*choice, arguments);
  if (const auto* method = callee.as<Method>()) return call_method(*method, std::move(arguments));
  if (const auto* builtin = callee.as<Builtin>()) return call_builtin(builtin->name, std::move(arguments));
  if (const auto* derivative = callee.as<Derivative>()) return call_derivative(*derivative, std::move(arguments));
  if (const auto* custom = callee.as<CustomGradient>()) return call_custom_gradient(*custom, arguments);
  if (const auto* type = callee.as<DTypeObject>(); type && arguments.positional.size() == 1) {
    return {Array{emit_.tensor(as_array(arguments.positional[0]), type->dtype)}};
  }
  if (const auto* live = std::get_if<std::shared_ptr<const Live>>(&callee.value)) {
    if (auto chosen = overload(**live, arguments)) return call(*chosen, std::move(arguments));
    if ((*live)->type()) {
      if (auto method = (*live)->attribute("__call__"); method && method->closure()) return call(*method, std::move(arguments));
    }
    if (const std::vector<std::string> names = (*live)->fields(); !names.empty()) {
      std::vector<Object> items = std::move(arguments.positional);
      for (size_t i = items.size(); i < names.size(); ++i) {
        auto given = std::ranges::find(arguments.named, names[i], [](const auto& entry) { return entry.first; });
        if (given != arguments.named.end()) {
          items.push_back(given->second);
        } else if (auto otherwise = (*live)->attribute(names[i])) {
          items.push_back(*otherwise);
        } else {
          emit_.fail(ErrorCode::InvalidArgument,
                     fmt::format("{} needs a value for '{}'", (*live)->describe(), names[i]));
        }
      }
      if (items.size() > names.size())
        emit_.fail(ErrorCode::InvalidArgument, fmt::format("{} has {} fields", (*live)->describe(), names.size()));
      return make_tuple(std::move(items), names, *live);
    }
    if (!(*live)->type()) return instantiate(*live, std::move(arguments));
  }
  if (const auto method = special(callee, "__call__")) return call(*method, std::move(arguments));
  emit_.fail(ErrorCode::TypeMismatch, fmt::format("{} cannot be called", describe(callee)),
             "only functions, classes of dataclasses and methods can");
}

std::optional<Object> Lowering::overload(const Live& callee, const Arguments& arguments) {
  std::vector<std::string> types;
  for (const Object& argument : arguments.positional) types.push_back(describe(argument));
  try {
    return callee.overload(types);
  } catch (const Error& error) {
    if (!error.location().empty()) throw;
    emit_.fail(error.code(), error.message(), error.hint());
  }
}

namespace {

// The same function of the same surroundings; two closures of one text are different ones, and so are the methods of two instances.
bool is_same_function(const Closure& a, const Closure& b) {
  const bool same_instances = std::ranges::equal(a.bound, b.bound, [](const auto& x, const auto& y) {
    const Cell *own = x.second->instance(), *other = y.second->instance();
    return (!own && !other) || (own && other && *own == *other);
  });
  return a.function == b.function && a.captured == b.captured && same_instances;
}

std::string name_of(const Closure& closure) {
  return closure.function->is(Kind::Lambda) ? "the lambda" : closure.function->text("name") + "()";
}

}  // namespace

const Cfg& Lowering::cfg_of(const Closure& closure) {
  std::unique_ptr<Cfg>& known = cfgs_[closure.function];
  if (known) return *known;
  if (!closure.function->is(Kind::Lambda)) {
    const bool is_written = closure.function->text("name") != kComprehension;
    known = std::make_unique<Cfg>(is_written ? propagate_constants(*closure.source, *closure.function)
                                             : build_cfg(*closure.source, *closure.function));
    return *known;
  }
  Tree* result = closure.source->make(Kind::Return, closure.function->position);
  result->fields.emplace_back("value", closure.function->child("body"));
  known = std::make_unique<Cfg>(Cfg{
      .source = closure.source, .function = closure.function, .scope = scope_of(*closure.source, *closure.function)});
  known->blocks.push_back({.end = EndKind::Return, .tree = result});
  return *known;
}

std::vector<const Cfg*> Lowering::functions() const {
  std::vector<const Cfg*> found;
  for (const auto& [tree, cfg] : cfgs_) {
    if (!cfg->source->is_library && tree->text("name") != kComprehension) found.push_back(cfg.get());
  }
  std::ranges::sort(found, {}, [](const Cfg* cfg) {
    return std::tuple(cfg->source->file, cfg->function->position.line, cfg->function->position.column);
  });
  return found;
}

// By Python's rules: positions first, then names, then defaults; *rest and **named take what is left.
std::vector<Lowering::Local> Lowering::bind_arguments(const Closure& closure, const Cfg& cfg, Arguments arguments) {
  const Tree& list = *closure.function->child("args");
  const std::string called = name_of(closure);
  auto signature = [&] { return "it is " + unparse(*closure.function); };
  std::vector<Local> locals(cfg.scope.parameters.size());
  std::vector<const Tree*> positional, keyword_only = {list.list("kwonlyargs").begin(), list.list("kwonlyargs").end()};
  for (std::string_view field : {"posonlyargs", "args"})
    positional.insert(positional.end(), list.list(field).begin(), list.list(field).end());
  auto slot = [&](const std::string& name) {
    return static_cast<size_t>(std::ranges::find(cfg.scope.parameters, name) - cfg.scope.parameters.begin());
  };
  for (size_t i = closure.bound.size(); i-- > 0;)
    arguments.positional.insert(arguments.positional.begin(), *closure.bound[i].second);

  const size_t taken = std::min(arguments.positional.size(), positional.size());
  for (size_t i = 0; i < taken; ++i)
    locals[slot(positional[i]->text("arg"))] = {arguments.positional[i], positional[i]};
  std::vector<Object> rest(arguments.positional.begin() + static_cast<std::ptrdiff_t>(taken),
                           arguments.positional.end());
  if (const Tree* all = list.child("vararg")) {
    locals[slot(all->text("arg"))] = {make_tuple(std::move(rest)), all};
  } else if (!rest.empty()) {
    emit_.fail(
        ErrorCode::InvalidArgument,
        fmt::format("{} takes {} arguments, {} are given", called, positional.size(), arguments.positional.size()),
        signature());
  }
  std::vector<Object> named;
  for (auto& [name, value] : arguments.named) {
    const bool is_positional_only =
        std::ranges::any_of(list.list("posonlyargs"), [&](const Tree* arg) { return arg->text("arg") == name; });
    auto is_it = [&](const Tree* arg) { return arg->text("arg") == name; };
    const bool is_known =
        !is_positional_only && (std::ranges::any_of(positional, is_it) || std::ranges::any_of(keyword_only, is_it));
    if (is_known) {
      Local& local = locals[slot(name)];
      if (local.object)
        emit_.fail(ErrorCode::InvalidArgument, fmt::format("{} gets '{}' twice", called, name), signature());
      local = {std::move(value), nullptr};
    } else if (list.child("kwarg")) {
      named.insert(named.end(), {make_text(name), std::move(value)});
    } else {
      emit_.fail(ErrorCode::InvalidArgument, fmt::format("{} has no argument '{}'", called, name), signature());
    }
  }
  if (const Tree* all = list.child("kwarg"))
    locals[slot(all->text("arg"))] = {make_cell(Cell::Kind::Dict, make_tuple(std::move(named))), all};

  auto take_default = [&](const Tree* arg, const Tree* written, const Items* evaluated, size_t i) {
    Local& local = locals[slot(arg->text("arg"))];
    if (local.object) return;
    if (!written)
      emit_.fail(ErrorCode::InvalidArgument, fmt::format("{} needs a value for '{}'", called, arg->text("arg")),
                 signature());
    if (evaluated) {
      local = {evaluated->items[i], arg};
      return;
    }
    Activation* outer = std::exchange(activation_, nullptr);
    const Closure* outer_globals = std::exchange(globals_of_, &closure);
    const Emitter::Place place = emit_.place();
    emit_.set_place({closure.source, written});
    local = {evaluate(*written), arg};
    emit_.set_place(place);
    activation_ = outer, globals_of_ = outer_globals;
  };
  const Tree::Trees &defaults = list.list("defaults"), &keyword_defaults = list.list("kw_defaults");
  for (size_t i = 0; i < positional.size(); ++i) {
    const bool has_default = i + defaults.size() >= positional.size();
    const size_t d = has_default ? i + defaults.size() - positional.size() : 0;
    take_default(positional[i], has_default ? defaults[d] : nullptr, closure.defaults.get(), d);
  }
  for (size_t i = 0; i < keyword_only.size(); ++i)
    take_default(keyword_only[i], keyword_defaults[i], closure.keyword_defaults.get(), i);
  return locals;
}

Object Lowering::call_closure(const Closure& closure, Arguments arguments) {
  if (closure.source->is_library && closure.source->file.ends_with("math.py")) {  // outside of its domain, where a NaN is returned here
    require_uncaught("ValueError");
    require_uncaught("OverflowError");
  }
  if (closure.source->is_library && closure.source->file.ends_with("builtins.py")) {
    if (auto result = builtin_by_method(closure.function->text("name"), arguments)) return *result;
  }
  const Cfg& cfg = cfg_of(closure);
  std::vector<Local> locals = bind_arguments(closure, cfg, std::move(arguments));
  if (cfg.scope.is_generator) return make_generator(closure, std::move(locals));
  if (recursive_.contains(closure.function)) {
    if (auto known = call_known(closure, locals)) return *known;
    return call_recursive(closure, std::move(locals), cfg);
  }
  for (const Activation* outer = activation_; outer; outer = outer->caller) {
    if (is_same_function(outer->closure, closure)) throw RecursionFound{&outer->closure};
  }
  const State before = here_;
  const Emitter::Place place = emit_.place();
  try {
    return run(closure, locals, cfg);
  } catch (const RecursionFound& found) {
    if (found.closure != &closure) throw;
    recursive_.insert(closure.function);
    set_state(before);
    emit_.set_place(place);
    return call_recursive(closure, std::move(locals), cfg);
  }
}

// What a recursive function is called with: the arguments, and what is in the cells that it changes.
Lowering::State Lowering::unite_calls(Union& all, std::span<const State> calls, const std::set<size_t>& cells, const Cfg& cfg) {
  all.is_forced = true;
  State united{.graph = nullptr, .locals = std::vector<Local>(calls[0].locals.size()), .store = {}};
  for (size_t i = 0; i < united.locals.size(); ++i) {
    std::vector<Object> objects;
    for (const State& call : calls) objects.push_back(*call.locals[i].object);
    all.name = fmt::format("the argument '{}'", cfg.scope.parameters[i]);
    united.locals[i] = {all.unite(objects), calls[0].locals[i].bound_at};
  }
  for (size_t id : cells) united.store[id] = *unite_cell(all, calls, id);
  return united;
}

// What it returns, and leaves in these cells.
Lowering::Returned Lowering::unite_returned(Union& all, const Returned& one) {
  all.is_forced = true, all.name = "the result";
  Returned united{.result = all.unite({one.result}), .contents = {}};
  const State state{.graph = nullptr, .locals = {}, .store = one.contents};
  for (const auto& [id, content] : one.contents) united.contents[id] = *unite_cell(all, {&state, 1}, id);
  return united;
}

Object Lowering::call_recursive(const Closure& closure, std::vector<Local> locals, const Cfg& cfg) {
  State before = here_;
  const Emitter::Place place = emit_.place();
  Recursion recursion{.closure = &closure, .calls = {{.graph = nullptr, .locals = locals, .store = before.store}}};
  auto types_of = [](const std::vector<Leaf>& leaves) {
    std::vector<std::tuple<const ir::Type*, bool, std::vector<int64_t>>> types;
    for (const Leaf& leaf : leaves) types.emplace_back(leaf.type, leaf.is_number, leaf.functions);
    return types;
  };
  decltype(types_of({})) result_types;
  constexpr int kMostAttempts = 16;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    recursion.graph = emit_.module().make_graph(closure.function->text("name"), before.graph);
    for (State& call : recursion.calls) {
      for (size_t id : recursion.cells) call.store.try_emplace(id, before.store.at(id));
    }
    Union parameters(*this, before.graph);
    unite_calls(parameters, recursion.calls, recursion.cells, cfg);
    recursion.parameters = parameters.leaves;
    std::vector<Node*> nodes;
    for (const Leaf& leaf : parameters.leaves)
      nodes.push_back(emit_.module().add_parameter(recursion.graph, leaf.type));
    parameters.substitute(nodes);
    State inside = unite_calls(parameters, recursion.calls, recursion.cells, cfg);
    recursion.is_again = false;
    inside.store.insert(before.store.begin(), before.store.end());  // of the others
    const std::map<size_t, Object> contents = inside.store;

    set_state({.graph = recursion.graph, .locals = {}, .store = std::move(inside.store)});
    std::optional<Object> result;
    {
      recursion.outer = std::exchange(recursion_, &recursion);
      struct Restore {
        Lowering& lowering;
        Recursion* outer;
        ~Restore() { lowering.recursion_ = outer; }
      } restore{*this, recursion.outer};
      try {
        result = run(closure, std::move(inside.locals), cfg);
      } catch (const Unreached&) {
      }
    }
    emit_.set_place(place);
    if (!result)
      emit_.fail(ErrorCode::InvalidModel,
                 fmt::format("{} never returns: each of its paths calls itself", name_of(closure)),
                 "a path that returns without the call ends the recursion");
    const bool is_first = !recursion.result;
    if (add_changed_cells(recursion, contents) > 0) {
      recursion.is_again = true;
      if (recursion.cells.contains(0)) {
        const State after = std::exchange(here_, before);
        emit_.set_graph(before.graph);
        token();
        before = std::exchange(here_, after);
        emit_.set_graph(here_.graph);
      }
    }
    Returned returned{.result = std::move(*result), .contents = {}};
    for (size_t id : recursion.cells) {
      if (id == 0) token();
      returned.contents[id] = here_.store.at(id);
    }
    Union leaves(*this, before.graph);
    unite_returned(leaves, returned);
    std::vector<Node*> values;
    for (const Leaf& leaf : leaves.leaves) values.push_back(convert(leaf.sources[0], leaf));
    emit_.module().set_result(here_.graph, result_of(values));
    auto types = types_of(leaves.leaves);
    const bool rests = !is_first && !recursion.is_again && types == result_types;
    result_types = std::move(types);
    recursion.result = std::move(returned.result), recursion.contents = std::move(returned.contents);
    if (!rests) continue;

    set_state(before);
    return call_with(recursion, locals, cfg);
  }
  emit_.fail(ErrorCode::TypeMismatch,
             fmt::format("the types in the recursive function {} do not come to rest", name_of(closure)),
             "give arguments and result one type in each call");
}

// Adds the cells of others whose content a lowering has changed; how many there are. Lists of numbers, and numbers, are passed through the
// calls. What shares its memory with a tensor would not be seen to.
size_t Lowering::add_changed_cells(Recursion& recursion, const std::map<size_t, Object>& before) {
  size_t count = 0;
  for (const auto& [id, content] : here_.store) {
    const auto old = before.find(id);
    const bool is_changed = old == before.end() ? id == 0 : differs(old->second, content);
    if (!is_changed || !recursion.cells.insert(id).second) continue;
    ++count;
    if (id != 0 && (holds_tensor(content) || holds_tensor(old->second))) {
      emit_.fail(ErrorCode::Unsupported,
                 fmt::format("the recursive function {} changes {}, which others see", name_of(*recursion.closure), describe(old->second)),
                 "return the new value");
    }
  }
  return count;
}

// A call of a function that is being lowered.
std::optional<Object> Lowering::call_known(const Closure& closure, const std::vector<Local>& locals) {
  for (Recursion* recursion = recursion_; recursion; recursion = recursion->outer) {
    if (is_same_function(*recursion->closure, closure))
      return call_with(*recursion, locals, *cfgs_.at(closure.function));
  }
  return std::nullopt;
}

// Where the arguments widen what the function takes, it is to be lowered again.
Object Lowering::call_with(Recursion& recursion, const std::vector<Local>& locals, const Cfg& cfg) {
  if (recursion.cells.contains(0)) token();
  std::vector<State> calls = recursion.calls;
  calls.push_back({.graph = nullptr, .locals = locals, .store = here_.store});
  Union arguments(*this, here_.graph);
  unite_calls(arguments, calls, recursion.cells, cfg);
  if (!std::ranges::equal(recursion.parameters, arguments.leaves, &Leaf::is_like)) {
    recursion.is_again = true;
    recursion.calls.push_back(calls.back());
  }
  if (!recursion.result) throw Unreached();
  std::vector<Node*> values;
  for (const Leaf& leaf : arguments.leaves) values.push_back(convert(leaf.sources.back(), leaf));
  Node* call = emit_.module().call(here_.graph, recursion.graph->value(), values);
  const Returned like{.result = *recursion.result, .contents = recursion.contents};
  Union leaves(*this, here_.graph);
  unite_returned(leaves, like);
  const std::vector<Node*> nodes = results_of(call, leaves.leaves);
  leaves.substitute(nodes);
  Returned returned = unite_returned(leaves, like);
  for (auto& [id, content] : returned.contents) here_.store[id] = std::move(content);
  return returned.result;
}

void Lowering::flatten(const Object& object, std::vector<Node*>& nodes) {
  if (object.instance()) {
    emit_.fail(ErrorCode::Unsupported, fmt::format("an instance of {} cannot be returned", describe(object)), "return its attributes, as a tuple");
  }
  if (const auto* cell = object.as<Cell>()) return flatten(content(*cell), nodes);
  if (const Items* tuple = object.tuple()) {
    for (const Object& item : tuple->items) flatten(item, nodes);
    return;
  }
  if (const auto* array = object.as<Array>()) return nodes.push_back(array->node);
  if (object.is_none()) return;
  nodes.push_back(emit_.tensor(object));
}

// Operators ----------------------------------------------------------------------------------------------------------

namespace {

using AttributeKind = ir::AttributeDeclaration::Kind;

std::optional<double> number_of(const Object& object) {
  if (const double* value = object.constant<double>()) return *value;
  const auto integer = integer_of(object);
  return integer ? std::optional(static_cast<double>(*integer)) : std::nullopt;
}

std::optional<AttributeValue> attribute_of(const Object& object, AttributeKind kind) {
  if (const auto* type = object.as<DTypeObject>()) return static_cast<int64_t>(type->dtype);
  if (auto text = text_of(object)) return *text;
  if (kind == AttributeKind::Float && number_of(object)) return static_cast<float>(*number_of(object));
  if (auto integer = integer_of(object)) return *integer;
  const Items* tuple = object.tuple();
  if (!tuple) return std::nullopt;
  std::vector<int64_t> integers;
  std::vector<float> floats;
  std::vector<std::string> texts;
  for (const Object& item : tuple->items) {
    if (auto text = text_of(item)) texts.push_back(*text);
    if (auto integer = integer_of(item)) integers.push_back(*integer);
    if (auto number = number_of(item)) floats.push_back(static_cast<float>(*number));
  }
  if (kind == AttributeKind::Strings && texts.size() == tuple->items.size()) return texts;
  if (kind == AttributeKind::Floats && floats.size() == tuple->items.size()) return floats;
  if (kind == AttributeKind::Ints && integers.size() == tuple->items.size()) return integers;
  return std::nullopt;
}

}  // namespace

// anfora.ops.Conv(x, w, strides=(2, 2)): operands by position or name, attributes by name; outputs=2 for several results.
Object Lowering::call_operator(const std::string& name, Arguments arguments) {
  const ir::Operator* op = emit_.module().context().find_operator(name);
  if (!op)
    emit_.fail(ErrorCode::NotFound, fmt::format("there is no operator {}", name), "`anfora operators` lists them");
  std::vector<std::optional<Object>> operands;
  for (Object& object : arguments.positional) operands.emplace_back(known_items(object));
  std::vector<AttributeSet::Entry> attributes;
  size_t outputs =
      static_cast<size_t>(std::ranges::count(op->outputs, ir::Formal::Arity::Required, &ir::Formal::arity));
  for (auto& [key, given] : arguments.named) {
    const Object value = known_items(given);
    const std::optional<size_t> input = op->find_input(key);
    auto attribute = std::ranges::find(op->attributes, key, &ir::AttributeDeclaration::name);
    if (input) {
      if (operands.size() <= *input) operands.resize(*input + 1);
      operands[*input] = value;
    } else if (attribute != op->attributes.end()) {
      if (value.is_none()) continue;
      auto converted = attribute_of(value, attribute->kind);
      if (!converted)
        emit_.fail(ErrorCode::InvalidArgument,
                   fmt::format("{}: the attribute {} cannot be {}", name, key, describe(value)),
                   "it must be known to the compiler");
      attributes.emplace_back(key, std::move(*converted));
    } else if (key == "outputs" && integer_of(value)) {
      outputs = static_cast<size_t>(*integer_of(value));
    } else {
      emit_.fail(ErrorCode::InvalidArgument, fmt::format("{} has no operand or attribute '{}'", name, key));
    }
  }
  // Numbers take the element type of a tensor that is declared to have the same.
  auto formal = [&](size_t i) -> const ir::Formal& { return op->inputs[std::min(i, op->inputs.size() - 1)]; };
  bool are_numbers = !operands.empty();
  std::map<std::string, DType> dtypes;
  for (size_t i = 0; i < operands.size() && !op->inputs.empty(); ++i) {
    if (!operands[i] || operands[i]->is_none()) continue;
    are_numbers = are_numbers && Emitter::is_number(*operands[i]);
    if (operands[i]->is<Array>() && !Emitter::is_number(*operands[i]))
      dtypes.emplace(formal(i).type, emit_.dtype(*operands[i]));
  }
  std::vector<Node*> nodes;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i] || operands[i]->is_none()) {
      nodes.push_back(emit_.module().none());
    } else if (const auto* array = operands[i]->as<Array>(); array && !array->node->type()->is_tensor()) {
      nodes.push_back(array->node);
    } else {
      auto dtype = op->inputs.empty() ? dtypes.end() : dtypes.find(formal(i).type);
      const bool adapts =
          Emitter::is_number(*operands[i]) && dtype != dtypes.end() && dtype->second != DType::Undefined;
      nodes.push_back(adapts ? emit_.tensor(*operands[i], dtype->second) : emit_.tensor(*operands[i]));
    }
  }
  Node* node = emit_.apply(name, nodes, AttributeSet(std::move(attributes)), std::max<size_t>(outputs, 1));
  if (outputs <= 1)
    return are_numbers && node->type()->is_tensor() && node->type()->has_rank() && node->type()->rank() == 0
               ? emit_.number(node)
               : Object{Array{node}};
  std::vector<Object> items;
  for (size_t i = 0; i < outputs; ++i) items.push_back({Array{emit_.item(node, i)}});
  return make_tuple(std::move(items));
}

}  // namespace anfora::python
