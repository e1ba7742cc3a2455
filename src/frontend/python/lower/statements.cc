// Statements: what they bind and do.
#include <fmt/format.h>

#include <algorithm>

#include "anfora/error.h"
#include "frontend/python/exits.h"
#include "frontend/python/lower/activation.h"

namespace anfora::python {

using ir::Node;

const Object& Lowering::content(const Cell& cell) const {
  auto found = here_.store.find(cell.id);
  if (found == here_.store.end())
    emit_.fail(ErrorCode::InvalidModel, "this variable has no value yet", "give it one before the function is called");
  return found->second;
}

Object Lowering::make_cell(Cell::Kind kind, std::optional<Object> content, std::shared_ptr<const Live> type) {
  const Cell cell{kind, next_cell_++, std::move(type)};
  cell_kinds_[cell.id] = kind;
  if (content) here_.store[cell.id] = std::move(*content);
  return {cell};
}

void Lowering::step(const Step& step) {
  emit_.set_place({activation_->closure.source, step.tree});
  try {
    switch (step.kind) {
      case StepKind::Run: return statement(*step.tree);
      case StepKind::Iterate: return begin_iteration(*step.tree);
      case StepKind::Next: return next_item(*step.tree);
    }
  } catch (const Error& error) {  // what knows nothing of the source
    if (!error.location().empty()) throw;
    emit_.fail(error.code(), error.message(), error.hint());
  }
}

void Lowering::statement(const Tree& s) {
  switch (s.kind) {
    case Kind::Assign: {
      const Object value = evaluate(*s.child("value"));
      for (const Tree* target : s.list("targets")) assign(*target, value);
      return;
    }
    case Kind::AnnAssign:
      if (const Tree* value = s.child("value")) assign(*s.child("target"), evaluate(*value));
      return;
    case Kind::AugAssign: return augmented_assignment(s);
    case Kind::Expr: return void(evaluate(*s.child("value")));
    case Kind::Assert: return assert_true(s);
    case Kind::Delete:
      for (const Tree* target : s.list("targets")) remove(*target);
      return;
    case Kind::MatchBind: {
      Captures captures;
      capture(*s.child("pattern"), evaluate(*s.child("subject")), captures);
      for (auto& [pattern, value] : captures) bind(bound_name(*pattern), std::move(value), *pattern);
      return;
    }
    case Kind::FunctionDef: return bind(s.text("name"), make_closure(s), s);
    case Kind::ClassDef: return bind(s.text("name"), make_class(s), s);
    case Kind::Import:
    case Kind::ImportFrom:
      for (const Tree* alias : s.list("names")) bind(bound_name(*alias), imported(s, *alias), *alias);
      return;
    default:
      emit_.fail(ErrorCode::Unsupported, fmt::format("{} is not supported in a compiled function", s.name),
                 "docs/language.md says what a function may hold");
  }
}

Object Lowering::imported(const Tree& s, const Tree& alias) {
  emit_.set_place({activation_->closure.source, &alias});
  const Globals& globals = *activation_->closure.globals;
  const bool is_from = s.is(Kind::ImportFrom);
  const std::string& name = alias.text("name");
  const std::string module = is_from ? imported_module(s) : name;
  if (is_from && name == "*") {
    emit_.fail(ErrorCode::Unsupported, "the names that * imports cannot be told in a function",
               "import the names that the function uses");
  }
  std::optional<Object> found = is_from ? globals.import(module, name) : globals.import(module);
  if (found && !is_from && alias.text("asname").empty()) found = globals.import(bound_name(alias));
  if (!found) {
    emit_.fail(ErrorCode::NotFound, fmt::format("{} cannot be imported", is_from ? module + "." + name : name),
               "docs/language.md lists the modules that the compiler knows");
  }
  return *found;
}

void Lowering::bind(const std::string& variable, Object value, const Tree& at) {
  const Scope& scope = activation_->cfg.scope;
  if (scope.globals.contains(variable)) {
    emit_.fail(ErrorCode::Unsupported,
               fmt::format("the global variable '{}' cannot be assigned in a compiled function", variable),
               "return the value, and assign it outside");
  }
  if (scope.nonlocals.contains(variable)) {
    auto found = activation_->closure.captured.find(variable);
    if (found == activation_->closure.captured.end()) {
      emit_.fail(ErrorCode::InvalidModel, fmt::format("no function around this one has a variable '{}'", variable),
                 "assign it in the function around, before this one is defined");
    }
    here_.store[found->second.id] = std::move(value);
    return;
  }
  if (const Cell* cell = variable_cell(variable)) {  // x[i] = v changes that of a function around, too
    here_.store[cell->id] = std::move(value);
    return;
  }
  if (!scope.is_local(variable)) {
    emit_.fail(ErrorCode::Unsupported, fmt::format("the global variable '{}' cannot be changed in a compiled function", variable),
               "copy it before, and return the copy");
  }
  const auto slot = static_cast<size_t>(std::ranges::find(scope.locals, variable) - scope.locals.begin());
  here_.locals[slot] = {std::move(value), &at};
}

void Lowering::assign(const Tree& target, Object value) {
  switch (target.kind) {
    case Kind::Name: return bind(target.text("id"), std::move(value), target);
    case Kind::Tuple:
    case Kind::List: return unpack(target, value);
    case Kind::Subscript: {
      const Object object = evaluate(*target.child("value")), index = evaluate(*target.child("slice"));
      return assign_item(target, object, index, value);
    }
    case Kind::Attribute: {
      const Object object = evaluate(*target.child("value"));
      emit_.set_place({activation_->closure.source, &target});
      return set_attribute(object, target.text("attr"), std::move(value));
    }
    default:
      emit_.fail(ErrorCode::Unsupported,
                 fmt::format("assigning to {} is not supported in a compiled function", unparse(target)),
                 "return the new value, and assign it outside");
  }
}

void Lowering::assign_item(const Tree& target, const Object& object, const Object& index, const Object& value) {
  const Tree& base = *target.child("value");
  emit_.set_place({activation_->closure.source, &target});
  if (require_special(object, "__setitem__", {index, value}, "assigning items")) return;
  if (const auto* cell = object.as<Cell>()) {
    require_own(*cell);
    here_.store[cell->id] = with_item(object, index, value);
    return;
  }
  if (!object.is<Array>()) {
    emit_.fail(ErrorCode::TypeMismatch, fmt::format("items of {} cannot be assigned", describe(object)),
               object.tuple() ? "a list can be changed" : "items of tensors, lists and dicts can");
  }
  require_unshared(base, object);
  assign(base, with_item(object, index, value));
}

// del x, del x[i], del x.a
void Lowering::remove(const Tree& target) {
  const Scope& scope = activation_->cfg.scope;
  if (target.is(Kind::Name) && scope.is_local(target.text("id"))) {
    const auto slot = static_cast<size_t>(std::ranges::find(scope.locals, target.text("id")) - scope.locals.begin());
    Local& local = here_.locals[slot];
    if (scope.captured.contains(target.text("id"))) {
      here_.store.erase(local.object->as<Cell>()->id);
    } else {
      local = {};
    }
    return;
  }
  const bool is_item = target.is(Kind::Subscript);
  const Object object = is_item || target.is(Kind::Attribute) ? evaluate(*target.child("value")) : Object{Constant{NoneValue()}};
  if (target.is(Kind::Attribute)) return remove_attribute(object, target.text("attr"));
  if (object.instance() || (is_item && written_class(object) && special(object, "__delitem__"))) {
    require_special(object, "__delitem__", {evaluate(*target.child("slice"))}, "deleting items");
    return;
  }
  const auto* cell = object.as<Cell>();
  if (!cell || set_of(object)) {
    emit_.fail(ErrorCode::Unsupported, fmt::format("del {} is not supported in a compiled function", unparse(target)),
               "items of lists and dicts, and local variables, can be deleted");
  }
  const Object index = evaluate(*target.child("slice"));
  emit_.set_place({activation_->closure.source, &target});
  require_own(*cell);
  const bool is_choice = cell->kind == Cell::Kind::List && !integer_of(index) && Emitter::is_numeric(index);
  const Object held = is_choice ? as_sequence(object) : content(*cell);
  if (!held.tuple()) {
    if (index.is<SliceObject>()) {
      emit_.fail(ErrorCode::Unsupported, "a part of a list whose length is only known when it runs cannot be deleted",
                 "make a list of what is left: a[:i] + a[j:]");
    }
    Node* rest = emit_.op("SequenceErase", {held.as<Array>()->node, emit_.tensor(index)});
    here_.store[cell->id] = {Array{rest, held.as<Array>()->is_number}};
    return;
  }
  const std::vector<Object>& items = held.tuple()->items;
  std::vector<Object> kept;
  if (cell->kind == Cell::Kind::Dict) {
    require_known_key(index);
    subscript(object, index);  // says that it is not there
    for (size_t i = 0; i < items.size(); i += 2) {
      if (differs(items[i], index)) kept.insert(kept.end(), {items[i], items[i + 1]});
    }
  } else {
    std::vector<Object> positions;
    for (size_t i = 0; i < items.size(); ++i) positions.push_back(make_integer(static_cast<int64_t>(i)));
    const Object deleted =
        index.is<SliceObject>() ? subscript(make_tuple(positions), index) : make_integer(known_index(index, items.size()));
    for (size_t i = 0; i < items.size(); ++i) {
      const bool is_deleted = deleted.tuple() ? known_member(positions[i], deleted.tuple()->items).value_or(false)
                                              : integer_of(deleted) == static_cast<int64_t>(i);
      if (!is_deleted) kept.push_back(items[i]);
    }
  }
  here_.store[cell->id] = make_tuple(std::move(kept));
}

void Lowering::unpack(const Tree& target, const Object& value) {
  const Tree::Trees& targets = target.list("elts");
  const std::vector<Object> items = items_of(value);
  auto starred = std::ranges::find_if(targets, [](const Tree* t) { return t->is(Kind::Starred); });
  const bool has_star = starred != targets.end();
  const size_t before = static_cast<size_t>(starred - targets.begin()), fixed = targets.size() - (has_star ? 1 : 0);
  if (has_star ? items.size() < fixed : items.size() != fixed) {
    emit_.fail(ErrorCode::TypeMismatch,
               fmt::format("{} values for {}{} names", items.size(), has_star ? "at least " : "", fixed),
               "a name with a star takes the rest: a, *b = …");
  }
  const size_t rest = items.size() - fixed;
  for (size_t t = 0; t < targets.size(); ++t) {
    if (targets[t]->is(Kind::Starred)) {
      const auto first = items.begin() + static_cast<std::ptrdiff_t>(before);
      assign(*targets[t]->child("value"), new_list({first, first + static_cast<std::ptrdiff_t>(rest)}));
    } else {
      assign(*targets[t], items[has_star && t > before ? t + rest - 1 : t]);
    }
  }
}

void Lowering::augmented_assignment(const Tree& s) {
  const Tree& target = *s.child("target");
  const Object none{Constant{NoneValue()}};
  const bool is_item = target.is(Kind::Subscript);
  const Object object = target.is(Kind::Name) ? none : evaluate(*target.child("value"));
  const Object index = is_item ? evaluate(*target.child("slice")) : none;
  emit_.set_place({activation_->closure.source, &target});
  const Object old = target.is(Kind::Name) ? name(target) : is_item ? subscript(object, index) : attribute(object, target.text("attr"));
  auto put = [&](Object value) {
    if (target.is(Kind::Name)) return assign(target, std::move(value));
    is_item ? assign_item(target, object, index, value) : set_attribute(object, target.text("attr"), std::move(value));
  };
  const Object value = evaluate(*s.child("value"));
  emit_.set_place({activation_->closure.source, &s});
  const Kind op = s.child("op")->kind;
  if (auto changed = in_place_by_method(op, old, value)) return put(std::move(*changed));
  if (const auto* cell = old.as<Cell>(); cell && cell->kind == Cell::Kind::List && op == Kind::Add) {  // in place
    require_own(*cell);
    if (!content(*cell).tuple() || sequence_of(value)) {
      call(*find_in_library("builtins", "_extend"), {.positional = {old, value}, .named = {}});
      return;
    }
    std::vector<Object> items = items_of(old);
    for (Object& item : items_of(value)) items.push_back(std::move(item));
    here_.store[cell->id] = make_tuple(std::move(items));
    return;
  }
  Object result = binary(op, old, value);
  const auto* cell = old.as<Cell>();
  if (cell && cell->kind != Cell::Kind::List && cell->kind != Cell::Kind::Instance && result.is<Cell>()) {  // s |= t
    require_own(*cell);
    here_.store[cell->id] = content(*result.as<Cell>());
    return;
  }
  const auto* array = old.as<Array>();
  if (array && !array->is_number && result.is<Array>() &&
      emit_.dtype(result) != emit_.dtype(old)) {  // numpy keeps the array
    if (python::promoted(emit_.dtype(result), emit_.dtype(old)) != emit_.dtype(old) &&
        is_float(emit_.dtype(result)) != is_float(emit_.dtype(old))) {
      emit_.fail(ErrorCode::TypeMismatch,
                 fmt::format("{} cannot hold the {} that this gives", describe(old), describe(result)),
                 "write x = x + …, which makes a new one");
    }
    result = {Array{emit_.cast(result.as<Array>()->node, emit_.dtype(old))}};
  }
  if (array && !array->is_number && !is_item) require_unshared(target, old);
  put(std::move(result));
}

namespace {

// The tensor of which numpy would make this one a view.
const Node* viewed(const Node* node) {
  static constexpr std::string_view kViews[] = {"Slice", "Reshape", "Transpose"};
  for (const ir::Apply* apply = node->as_apply(); apply; apply = node->as_apply()) {
    const bool is_view =
        std::ranges::count(kViews, apply->op().qualified) || apply->is("Squeeze") || apply->is("Unsqueeze") ||
        apply->is("Expand") ||
        (apply->is("Gather") && apply->input(1)->type()->has_rank() && apply->input(1)->type()->rank() == 0);
    if (!is_view) return node;
    node = apply->input(0);
  }
  return node;
}

// A copy, in numpy.
bool is_scalar(const Node* node) {
  const ir::Type* type = node->type();
  return !type->is_tensor() || (type->has_rank() && type->rank() == 0);
}

}  // namespace

// The tensors whose memory numpy might show by this one: those of which it is a view, and of a join any.
std::set<const Node*> Lowering::memory_of(const Node* node) const {
  std::set<const Node*> memory;
  std::vector<const Node*> worklist{node};
  while (!worklist.empty()) {
    const Node* base = viewed(worklist.back());
    worklist.pop_back();
    if (!memory.insert(base).second) continue;
    if (auto joined = joined_from_.find(base); joined != joined_from_.end())
      worklist.insert(worklist.end(), joined->second.begin(), joined->second.end());
  }
  return memory;
}

bool Lowering::shows(const Object& object, const std::set<const Node*>& memory) const {
  if (const auto* array = object.as<Array>()) {
    return !is_scalar(array->node) &&
           std::ranges::any_of(memory_of(array->node), [&](const Node* base) { return memory.contains(base); });
  }
  if (const Suspended* generator = object.suspended()) {
    if (std::ranges::any_of(generator->several, [&](const Suspended& one) { return shows({std::make_shared<const Suspended>(one)}, memory); })) return true;
    return std::ranges::any_of(generator->variables, [&](const std::optional<Object>& variable) {
      return variable && shows(*variable, memory);
    });
  }
  const Items* tuple = object.tuple();
  return tuple && std::ranges::any_of(tuple->items, [&](const Object& item) { return shows(item, memory); });
}

void Lowering::set_callers(const Object& object) {
  if (const auto* cell = object.as<Cell>()) callers_cells_.insert(cell->id);
  if (const auto* array = object.as<Array>()) callers_tensors_.insert(array->node);
}

// What the caller has stays as it is, since a graph has no way to change it; that must not go unnoticed either.
void Lowering::require_own(const Cell& cell) const {
  if (frozen_cells_.contains(cell.id)) {
    const std::string frozen = describe({cell});
    emit_.fail(ErrorCode::Unsupported, fmt::format("this would change a {} that may be another variable's, too, as the run decides", frozen),
               fmt::format("choose a copy, {}(…), where the paths part", frozen));
  }
  if (!callers_cells_.contains(cell.id)) return;
  const std::string kind = describe({cell});
  emit_.fail(ErrorCode::Unsupported, fmt::format("this would change a {} that the caller holds", kind),
             fmt::format("change a copy, {}(…), and return it", kind));
}

// Tensors are values; that `y = x` shows later changes of x, as in numpy, is not there, and must not go unnoticed.
void Lowering::require_unshared(const Tree& target, const Object& object) {
  const Tree* root = &target;
  while (root->is(Kind::Subscript)) root = root->child("value");
  if (is_scalar(object.as<Array>()->node)) return;
  const std::set<const Node*> base = memory_of(object.as<Array>()->node);
  auto refuse = [&](std::string_view other) {
    emit_.fail(ErrorCode::Unsupported,
               fmt::format("this would change {} as well, which shares its memory with '{}'", other, unparse(*root)),
               fmt::format("{0} = {0}.copy() before", unparse(*root)));
  };
  if (std::ranges::any_of(base, [&](const Node* node) { return callers_tensors_.contains(node); })) {
    emit_.fail(ErrorCode::Unsupported, fmt::format("'{}' is the caller's, and this would change it", unparse(*root)),
               fmt::format("{0} = {0}.copy() before, and return it", unparse(*root)));
  }
  const std::vector<std::string>& names = activation_->cfg.scope.locals;
  for (size_t i = 0; i < names.size(); ++i) {
    if (root->is(Kind::Name) && names[i] == root->text("id")) continue;
    if (here_.locals[i].object && shows(*here_.locals[i].object, base)) refuse(fmt::format("'{}'", names[i]));
  }
  for (size_t i = activation_->slots(); i < here_.locals.size(); ++i) {
    if (here_.locals[i].object && shows(*here_.locals[i].object, base)) refuse("a variable of a generator, or of what goes over it,");
  }
  for (const Activation* outer = activation_; outer; outer = outer->caller) {
    for (const Local& local : outer->saved) {
      if (local.object && shows(*local.object, base)) refuse("a variable of the calling function");
    }
  }
  const Cell* own = root->is(Kind::Name) ? variable_cell(root->text("id")) : nullptr;
  std::optional<Object> holder;
  if (root->is(Kind::Attribute)) holder = evaluate(*root->child("value"));
  for (const auto& [id, content] : here_.store) {
    if (id == 0 || (own && own->id == id)) continue;
    const Items* attributes = holder && holder->instance() && holder->instance()->id == id ? content.tuple() : nullptr;
    if (!attributes && shows(content, base)) refuse("an object, list or variable of another function");
    for (size_t i = 0; attributes && i < attributes->items.size(); ++i) {
      if (attributes->names[i] != root->text("attr") && shows(attributes->items[i], base)) refuse(fmt::format("the attribute '{}'", attributes->names[i]));
    }
  }
}

const Cell* Lowering::variable_cell(const std::string& variable) const {
  const Scope& scope = activation_->cfg.scope;
  if (scope.captured.contains(variable)) {
    const auto slot = static_cast<size_t>(std::ranges::find(scope.locals, variable) - scope.locals.begin());
    return here_.locals[slot].object->as<Cell>();
  }
  auto found = activation_->closure.captured.find(variable);
  return found == activation_->closure.captured.end() || scope.is_local(variable) ? nullptr : &found->second;
}

// Effects ------------------------------------------------------------------------------------------------------------

Node* Lowering::token() {
  auto found = here_.store.find(0);
  if (found == here_.store.end()) found = here_.store.emplace(0, Object{Array{emit_.op("InitialState", {})}}).first;
  return found->second.as<Array>()->node;
}

Object Lowering::after_effects(Object object) {
  std::map<size_t, Object> instances;
  return after_effects(std::move(object), instances);
}

Object Lowering::after_effects(Object object, std::map<size_t, Object>& instances) {
  auto found = here_.store.find(0);
  if (found == here_.store.end()) return object;
  Node* last = found->second.as<Array>()->node;
  if (const auto* array = object.as<Array>()) return {Array{emit_.op("Depend", {array->node, last}), array->is_number}};
  if (is_known_number(object)) return after_effects({Array{emit_.tensor(object), true}}, instances);
  if (const Items* tuple = object.tuple()) {
    Items items{.items = {}, .names = tuple->names, .type = tuple->type};
    for (const Object& item : tuple->items) items.items.push_back(after_effects(item, instances));
    return {std::make_shared<const Items>(std::move(items))};
  }
  if (const auto* cell = object.as<Cell>()) {
    if (cell->kind == Cell::Kind::Instance) {  // it may be one that is met again
      auto [made, is_new] = instances.try_emplace(cell->id);
      if (!is_new) return made->second;
      made->second = make_cell(cell->kind, std::nullopt, cell->type);
      const Cell later = *made->second.as<Cell>();
      Object attributes = after_effects(content(*cell), instances);
      here_.store[later.id] = std::move(attributes);
      return {later};
    }
    if (cell->kind != Cell::Kind::Dict) return make_cell(cell->kind, after_effects(content(*cell), instances));
    std::vector<Object> pairs = content(*cell).tuple()->items;
    for (size_t i = 1; i < pairs.size(); i += 2) pairs[i] = after_effects(pairs[i], instances);
    return new_dict(std::move(pairs));
  }
  return object;
}

void Lowering::assert_true(const Tree& s) {
  const Tree* told = s.child("msg");
  const Object condition = evaluate(*s.child("test"));
  emit_.set_place({activation_->closure.source, &s});
  std::string message = unparse(s);
  if (told) {
    if (auto text = text_of(evaluate(*told))) message = *text;
  }
  const Object truth = this->truth(condition);
  const bool* known = truth.constant<bool>();
  if (known && *known) return;
  require_uncaught("AssertionError");
  if (known) raise(message);
  set_token(emit_.op("Assert", {token(), emit_.tensor(truth)}, {{"message", message.c_str()}}));
}

// Only what the body of a try itself raises goes to its handlers; what functions and operations in it raise must not be theirs.
void Lowering::require_uncaught(const std::string& exception) const {
  for (const Activation* function : running_) {
    for (const Tree* guard = function->guard; guard; guard = function->cfg.outer_guards.at(guard)) {
      for (const Tree* type : guard->list("types")) {
        if (catches(type, exception) == Catches::No) continue;
        emit_.fail(ErrorCode::Unsupported,
                   fmt::format("{} that is raised here would be caught in line {}", exception.empty() ? "the exception" : "the " + exception,
                               (type ? type : guard)->position.line),
                   "a try of a compiled function catches what its own body raises; test for the condition before, with if");
      }
    }
  }
}

// A run that gets here ends by this error. The path ends, too, but the function it is in still returns something, behind the error.
void Lowering::raise(std::string_view message) {
  Node* never = emit_.module().scalar(false);
  set_token(emit_.op("Assert", {token(), never}, {{"message", std::string(message).c_str()}}));
  dead_ends_.push_back(here_);
  throw Unreached();
}

// Iteration ----------------------------------------------------------------------------------------------------------

void Lowering::begin_iteration(const Tree& loop) {
  const Object iterable = iterated(evaluate(*loop.child("iter")));
  emit_.set_place({activation_->closure.source, loop.child("iter")});
  const size_t slot = activation_->iterator_slot(loop);
  if (iterable.is<Generator>()) {
    const Object none{Constant{NoneValue()}};
    here_.locals[slot] = {make_tuple({iterable, none}), &loop};
    here_.locals[slot + 1] = {none, &loop};
    return;
  }
  here_.locals[slot] = {make_tuple({iterable, length(iterable)}), &loop};
  here_.locals[slot + 1] = {make_integer(0), &loop};
}

// What a `for` goes over, as it is now.
Object Lowering::iterated(const Object& object) {
  if (const auto items = iterator_of(object)) return iterated(*items);
  if (const SetObject* set = set_of(object)) {
    if (distinct_items(*set).size() < 2) return {set->items};
    emit_.fail(ErrorCode::Unsupported, "the order of the items of a set is not supported", "go over sorted(…), or a tuple");
  }
  if (const auto* cell = object.as<Cell>()) {
    const Object& items = content(*cell);
    if (cell->kind == Cell::Kind::List) return items;
    std::vector<Object> keys;
    for (size_t i = 0; i < items.tuple()->items.size(); i += 2) keys.push_back(items.tuple()->items[i]);
    return make_tuple(std::move(keys));
  }
  if (const auto* iterable = object.as<Iterable>(); iterable && iterable->kind != Iterable::Kind::Range) {
    std::vector<Object> parts;
    const bool has_start = iterable->kind == Iterable::Kind::Enumerate;
    for (size_t i = 0; i < iterable->parts->items.size(); ++i) {
      const Object& part = iterable->parts->items[i];
      parts.push_back(has_start && i == 1 ? part : iterated(part));
    }
    return {Iterable{iterable->kind, std::make_shared<const Items>(Items{std::move(parts), {}})}};
  }
  if (const auto text = text_of(object)) {
    std::vector<Object> characters;
    for (char32_t c : *object.constant<std::u32string>()) characters.push_back({Constant{std::u32string(1, c)}});
    return make_tuple(std::move(characters));
  }
  return object;
}

bool Lowering::has_known_items(const Object& state) {
  const Object& iterable = state.tuple()->items[0];
  auto known = [](auto& self, const Object& object) -> bool {
    if (object.tuple()) return true;
    const auto* inner = object.as<Iterable>();
    return inner && inner->kind != Iterable::Kind::Range &&
           std::ranges::any_of(inner->parts->items, [&](const Object& o) { return self(self, o); });
  };
  return known(known, iterable);
}

Object Lowering::has_next(const Tree& loop) {
  const size_t slot = activation_->iterator_slot(loop);
  return compare(Kind::Lt, *here_.locals[slot + 1].object, here_.locals[slot].object->tuple()->items[1]);
}

void Lowering::next_item(const Tree& loop) {
  const size_t slot = activation_->iterator_slot(loop);
  emit_.set_place({activation_->closure.source, loop.child("target")});
  if (fed_generator(loop)) {
    Object item = std::move(*here_.locals[slot + 1].object);
    here_.locals[slot + 1].object = Object{Constant{NoneValue()}};
    return assign(*loop.child("target"), std::move(item));
  }
  const Object index = *here_.locals[slot + 1].object;
  const Object value = item(here_.locals[slot].object->tuple()->items[0], index);
  here_.locals[slot + 1].object = binary(Kind::Add, index, make_integer(1));
  assign(*loop.child("target"), value);
}

}  // namespace anfora::python
