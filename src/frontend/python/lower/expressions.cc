// Expressions: what they stand for.
#include <fmt/format.h>

#include <algorithm>

#include "anfora/error.h"
#include "frontend/python/lower/activation.h"
#include "frontend/python/lower/builtins.h"
#include "frontend/python/operators.h"

namespace anfora::python {

using ir::Node;

Object Lowering::evaluate(const Tree& e) {
  const Emitter::Place outer = emit_.place();
  const Source* source = activation_ ? activation_->closure.source : outer.source;
  emit_.set_place({source, &e});
  Object result = evaluate_here(e);
  emit_.set_place(outer);
  return result;
}

Object Lowering::evaluate_here(const Tree& e) {
  switch (e.kind) {
    case Kind::Constant:
      if (e.constant.is<FrozenSet>()) {
        std::vector<Object> items;
        for (const Constant& item : e.constant.as<FrozenSet>().items) items.push_back(make_constant(item));
        return make_set(items);
      }
      return make_constant(e.constant);
    case Kind::Name: return name(e);
    case Kind::BinOp: {
      const Object left = evaluate(*e.child("left")), right = evaluate(*e.child("right"));
      return binary(e.child("op")->kind, left, right);
    }
    case Kind::UnaryOp: {
      const Object operand = evaluate(*e.child("operand"));
      if (e.child("op")->is(Kind::Not)) {
        const Object truth = this->truth(operand);
        return emit_.unary(Kind::Not, truth);
      }
      if (auto result = unary_by_method(e.child("op")->kind, operand)) return *result;
      return emit_.unary(e.child("op")->kind, operand);
    }
    case Kind::BoolOp: return boolean(e, 0);
    case Kind::Compare: return chain(e, 0, evaluate(*e.child("left")));
    case Kind::IfExp: {
      const Object condition = truth(evaluate(*e.child("test")));
      return choose(
          condition, [&] { return evaluate(*e.child("body")); }, [&] { return evaluate(*e.child("orelse")); });
    }
    case Kind::NamedExpr: {
      Object value = evaluate(*e.child("value"));
      bind(e.child("target")->text("id"), value, e);
      return value;
    }
    case Kind::Call: return call_expression(e);
    case Kind::Attribute: {
      const Object object = evaluate(*e.child("value"));
      return attribute(object, e.text("attr"));
    }
    case Kind::Subscript: {
      const Object object = evaluate(*e.child("value")), index = evaluate(*e.child("slice"));
      return subscript(object, index);
    }
    case Kind::Slice: {
      Items parts;
      for (std::string_view field : {"lower", "upper", "step"}) {
        const Tree* part = e.child(field);
        parts.items.push_back(part ? evaluate(*part) : Object{Constant{NoneValue()}});
      }
      return {SliceObject{std::make_shared<const Items>(std::move(parts))}};
    }
    case Kind::Tuple: return make_tuple(elements(e));
    case Kind::List: return new_list(elements(e));
    case Kind::Set: return make_cell(Cell::Kind::Set, make_set(elements(e)));
    case Kind::Dict: {
      const Object dict = make_cell(Cell::Kind::Dict, make_tuple({}));
      const Tree::Trees &keys = e.list("keys"), &values = e.list("values");
      for (size_t i = 0; i < keys.size(); ++i) {
        const Cell& cell = *dict.as<Cell>();
        if (keys[i]) {
          const Object key = evaluate(*keys[i]), value = evaluate(*values[i]);
          here_.store[cell.id] = with_item(dict, key, value);
          continue;
        }
        const Object other = evaluate(*values[i]);  // **other
        const std::vector<Object> pairs = content(*other.as<Cell>()).tuple()->items;
        for (size_t p = 0; p < pairs.size(); p += 2) here_.store[cell.id] = with_item(dict, pairs[p], pairs[p + 1]);
      }
      return dict;
    }
    case Kind::Lambda: return make_closure(e);
    case Kind::ContextEnter: return enter_context(evaluate(*e.child("manager")));
    case Kind::ContextExit: return exit_context(evaluate(*e.child("manager")), !e.text("raises").empty());
    case Kind::MatchTest: return matches(*e.child("pattern"), evaluate(*e.child("subject")));
    case Kind::Yield: return activation_->sent.value_or(Object{Constant{NoneValue()}});  // it has yielded, as the end of the block before
    case Kind::JoinedStr: return formatted(e);
    case Kind::ListComp:
    case Kind::GeneratorExp:
    case Kind::DictComp: return comprehension(e);
    case Kind::SetComp: return make_cell(Cell::Kind::Set, make_set(items_of(comprehension(e))));
    default:
      emit_.fail(ErrorCode::Unsupported, fmt::format("{} is not supported in a compiled function", e.name),
                 "docs/language.md says what a function may hold");
  }
}

std::vector<Object> Lowering::elements(const Tree& display) {
  std::vector<Object> items;
  for (const Tree* element : display.list("elts")) {
    if (!element->is(Kind::Starred)) {
      items.push_back(evaluate(*element));
      continue;
    }
    for (Object& item : items_of(evaluate(*element->child("value")))) items.push_back(std::move(item));
  }
  return items;
}

Object Lowering::name(const Tree& e) {
  const std::string& id = e.text("id");
  const Closure* closure = activation_ ? &activation_->closure : globals_of_;
  if (class_body_ && class_body_->function == activation_) {
    const auto own = std::ranges::find(*class_body_->members, id, [](const auto& entry) { return entry.first; });
    if (own != class_body_->members->end()) return own->second.object;
  }
  if (activation_) {
    const Scope& scope = activation_->cfg.scope;
    if (scope.is_local(id)) {
      const auto slot = static_cast<size_t>(std::ranges::find(scope.locals, id) - scope.locals.begin());
      const Local& local = here_.locals[slot];
      if (!local.object)
        emit_.fail(ErrorCode::InvalidModel, fmt::format("'{}' has no value here", id), "give it one before");
      if (!scope.captured.contains(id)) return *local.object;
      auto found = here_.store.find(local.object->as<Cell>()->id);
      if (found == here_.store.end())
        emit_.fail(ErrorCode::InvalidModel, fmt::format("'{}' has no value yet", id),
                   "give it one before the function is called");
      return found->second;
    }
  }
  if (auto captured = closure->captured.find(id); captured != closure->captured.end()) {
    auto found = here_.store.find(captured->second.id);
    if (found == here_.store.end())
      emit_.fail(ErrorCode::InvalidModel, fmt::format("'{}' has no value yet", id),
                 "give it one before the function is called");
    return found->second;
  }
  if (closure->globals) {
    if (auto found = closure->globals->find(id)) return *found;
  }
  if (auto builtin = find_builtin(id)) return *builtin;
  if (auto exception = exception_class(id)) return {std::move(exception)};
  emit_.fail(ErrorCode::NotFound, fmt::format("the name '{}' is not defined", id),
             "define it before the call; of Python's own functions, docs/language.md lists those that can be compiled");
}

// `a and b`: b where a is true, else a. Of tensors it is their truth that counts.
Object Lowering::boolean(const Tree& e, size_t first) {
  const Tree::Trees& values = e.list("values");
  const Object left = evaluate(*values[first]);
  if (first + 1 == values.size()) return left;
  const Object condition = truth(left);
  const auto rest = [&] { return boolean(e, first + 1); };
  const auto this_one = [&] { return left; };
  return e.child("op")->is(Kind::And) ? choose(condition, rest, this_one) : choose(condition, this_one, rest);
}

Object Lowering::truth(const Object& object) {
  if (const auto method = special(object, "__bool__")) return truth(call(*method, {}));
  if (const auto method = special(object, "__len__")) return compare(Kind::NotEq, call(*method, {}), make_integer(0));
  if (object.instance()) return {Constant{true}};
  if (const SetObject* set = set_of(object)) return {Constant{!set->items->items.empty()}};
  if (const auto* cell = object.as<Cell>()) {
    const Object& items = content(*cell);
    if (items.tuple()) return {Constant{!items.tuple()->items.empty()}};
    return compare(Kind::Gt, length(object), make_integer(0));
  }
  return emit_.truth(object);
}

// a < b < c is a < b and b < c.
Object Lowering::chain(const Tree& e, size_t first, const Object& left) {
  const Object right = evaluate(*e.list("comparators")[first]);
  Object result = compare(e.list("ops")[first]->kind, left, right);
  if (first + 1 == e.list("ops").size()) return result;
  const Object condition = truth(result);
  return choose(condition, [&] { return chain(e, first + 1, right); }, [&] { return result; });
}

Object Lowering::compare(Kind op, const Object& left, const Object& right) {
  if (op == Kind::Is || op == Kind::IsNot) {
    const bool is_same = left.is_none() || right.is_none() ? left.is_none() == right.is_none() : !differs(left, right);
    for (const Object* object : {&left, &right}) {
      if (!left.is_none() && !right.is_none() && object->is<Cell>() && frozen_cells_.contains(object->as<Cell>()->id))
        emit_.fail(ErrorCode::Unsupported, fmt::format("whether this {} is another one is decided by the run", describe(*object)), "== compares items");
    }
    if ((left.choice() || right.choice()) && is_function(left) && is_function(right)) {
      auto number = [&](const Object& function) { return function.choice() ? *function.choice()->which : make_integer(function_number(function)); };
      return compare(op == Kind::Is ? Kind::Eq : Kind::NotEq, number(left), number(right));
    }
    const bool are_numbers = Emitter::is_number(left) && Emitter::is_number(right);
    if (!is_same && are_numbers && (left.is<Array>() || right.is<Array>()) && describe(left) == describe(right)) {
      if (emit_.dtype(left) == DType::Bool) return emit_.compare(op == Kind::Is ? Kind::Eq : Kind::NotEq, left, right);
      emit_.fail(ErrorCode::Unsupported, fmt::format("whether one {} is another cannot be told in a compiled function", describe(left)),
                 fmt::format("{} compares values", op == Kind::Is ? "==" : "!="));
    }
    return {Constant{is_same == (op == Kind::Is)}};
  }
  if (op == Kind::In || op == Kind::NotIn) {
    if (auto text = text_of(left), whole = text_of(right); text && whole) {
      return {Constant{(whole->find(*text) != std::string::npos) == (op == Kind::In)}};
    }
    if (const auto method = special(right, "__contains__")) {
      const Object found = truth(call(*method, {.positional = {left}, .named = {}}));
      return op == Kind::In ? found : emit_.unary(Kind::Not, found);
    }
    if (const auto items = iterator_of(right)) return compare(op, left, *items);
    const SetObject* set = set_of(right);
    if (right.is<Generator>() || sequence_of(right)) {
      const Object found = call(*find_in_library("anfora", "_contains"), {.positional = {right, left}, .named = {}});
      return op == Kind::In ? found : emit_.unary(Kind::Not, found);
    }
    const Object found = member(left, set ? set->items->items : items_of(right));
    return op == Kind::In ? found : emit_.unary(Kind::Not, found);
  }
  if (auto result = by_methods(op, left, right)) return *result;
  if (const auto* a = left.as<DTypeObject>(); a && right.is<DTypeObject>() && (op == Kind::Eq || op == Kind::NotEq)) {
    return {Constant{(a->dtype == right.as<DTypeObject>()->dtype) == (op == Kind::Eq)}};
  }
  if (auto result = compare_sets(op, left, right)) return *result;
  const bool is_equality = op == Kind::Eq || op == Kind::NotEq;
  if (is_equality && left.is<Builtin>() && right.is<Builtin>()) return {Constant{differs(left, right) == (op == Kind::NotEq)}};  // types
  if (is_equality && !left.is_none() && !right.is_none() && (left.live() || right.live())) {
    for (const Object* object : {&left, &right}) {
      if (object->live() && !object->live()->is_equal_by_identity()) {
        emit_.fail(ErrorCode::Unsupported, fmt::format("what == means for {} cannot be compiled", describe(*object)),
                   "compare numbers, texts, tensors, or what has no __eq__ of its own");
      }
    }
    return {Constant{differs(left, right) == (op == Kind::NotEq)}};
  }
  const auto *left_cell = left.as<Cell>(), *right_cell = right.as<Cell>();
  const bool is_dict = left_cell && left_cell->kind == Cell::Kind::Dict, other_is_dict = right_cell && right_cell->kind == Cell::Kind::Dict;
  if (is_equality && (is_dict || other_is_dict)) {
    Object equal{Constant{is_dict && other_is_dict && integer_of(length(left)) == integer_of(length(right))}};
    if (*equal.constant<bool>()) {
      const std::vector<Object> pairs = content(*left_cell).tuple()->items, others = content(*right_cell).tuple()->items;
      for (size_t i = 0; i < pairs.size(); i += 2) {
        Object is_there{Constant{false}};
        for (size_t k = 0; k < others.size(); k += 2) {
          if (!differs(pairs[i], others[k])) is_there = truth(compare(Kind::Eq, pairs[i + 1], others[k + 1]));
        }
        equal = emit_.binary(Kind::BitAnd, equal, is_there);
      }
    }
    return op == Kind::Eq ? equal : emit_.unary(Kind::Not, equal);
  }
  const bool are_sequences = (left.tuple() || left.is<Cell>()) && (right.tuple() || right.is<Cell>());
  if (left.tuple() && right.tuple() && is_equality && class_of(*left.tuple()) != class_of(*right.tuple())) return {Constant{op == Kind::NotEq}};
  if (are_sequences && is_equality) {
    const std::vector<Object> a = items_of(left), b = items_of(right);
    Object equal{Constant{a.size() == b.size()}};
    for (size_t i = 0; i < a.size() && a.size() == b.size(); ++i)
      equal = emit_.binary(Kind::BitAnd, equal, truth(compare(Kind::Eq, a[i], b[i])));
    return op == Kind::Eq ? equal : emit_.unary(Kind::Not, equal);
  }
  const bool is_order = op == Kind::Lt || op == Kind::LtE || op == Kind::Gt || op == Kind::GtE;
  const bool are_lists = left_cell && right_cell && left_cell->kind == Cell::Kind::List && right_cell->kind == Cell::Kind::List;
  const bool are_alike = (left.tuple() && right.tuple()) || are_lists;
  if (is_order && are_alike) {  // the first items that differ decide, else the lengths
    const std::vector<Object> a = items_of(left), b = items_of(right);
    const size_t common = std::min(a.size(), b.size());
    Object result = compare(op, make_integer(static_cast<int64_t>(a.size())), make_integer(static_cast<int64_t>(b.size())));
    for (size_t i = common; i-- > 0;) {
      const Object is_equal = truth(compare(Kind::Eq, a[i], b[i]));
      if (const bool* known = is_equal.constant<bool>(); known && *known) continue;
      const Object own = truth(compare(op == Kind::LtE ? Kind::Lt : op == Kind::GtE ? Kind::Gt : op, a[i], b[i]));
      result = emit_.binary(Kind::BitOr, own, emit_.binary(Kind::BitAnd, is_equal, result));
    }
    return result;
  }
  if (left.tuple() && right.is<Array>()) return emit_.compare(op, {Array{emit_.tensor(left)}}, right);
  if (right.tuple() && left.is<Array>()) return emit_.compare(op, left, {Array{emit_.tensor(right)}});
  return emit_.compare(op, left, right);
}

Object Lowering::binary(Kind op, const Object& left, const Object& right) {
  if (auto result = by_methods(op, left, right)) return *result;
  const bool is_quotient = op == Kind::Div || op == Kind::FloorDiv || op == Kind::Mod;
  if (((is_quotient && right.is<Array>()) || op == Kind::Pow) && Emitter::is_number(left) && Emitter::is_number(right)) {
    require_uncaught("ZeroDivisionError");
    if (op == Kind::Pow) require_uncaught("OverflowError");
  }
  if (auto result = combine_sets(op, left, right)) return *result;
  const auto *a = left.as<Cell>(), *b = right.as<Cell>();
  const bool are_dicts = a && b && a->kind == Cell::Kind::Dict && b->kind == Cell::Kind::Dict;
  if (op == Kind::BitOr && are_dicts) {
    const Object united = make_cell(Cell::Kind::Dict, content(*a));
    update_dict(united, {.positional = {right}, .named = {}});
    return united;
  }
  const bool is_list = (a && a->kind == Cell::Kind::List) || (b && b->kind == Cell::Kind::List);
  const bool with_tensor = left.is<Array>() || right.is<Array>();
  if (with_tensor && (left.tuple() || right.tuple() || is_list)) {  // as numpy takes nested lists for arrays
    const bool is_count = op == Kind::Mult && (emit_.is_number(left) || emit_.is_number(right));
    if (!is_count) return emit_.binary(op, as_array(left), as_array(right));
  }
  const bool are_lists = a && b && a->kind == Cell::Kind::List && b->kind == Cell::Kind::List;
  if (op == Kind::Add && are_lists && (sequence_of(left) || sequence_of(right))) {
    return call(*find_in_library("builtins", "_joined"), {.positional = {left, right}, .named = {}});
  }
  if (op == Kind::Add && ((left.tuple() && right.tuple()) || are_lists)) {
    std::vector<Object> items = items_of(left);
    for (Object& item : items_of(right)) items.push_back(std::move(item));
    return is_list ? new_list(std::move(items)) : make_tuple(std::move(items));
  }
  const Object& repeated = left.tuple() || a ? left : right;
  if (op == Kind::Mult && (repeated.tuple() || is_list)) {
    const Object& count = &repeated == &left ? right : left;
    const auto times = integer_of(count);
    if (!times || sequence_of(repeated)) return repeated_list(repeated, count);
    std::vector<Object> items;
    for (int64_t i = 0; i < *times; ++i) {
      for (Object& item : items_of(repeated)) items.push_back(std::move(item));
    }
    return is_list ? new_list(std::move(items)) : make_tuple(std::move(items));
  }
  return emit_.binary(op, left, right);
}

// [0] * n of an n that only a run knows, or of a list of such a length.
Object Lowering::repeated_list(const Object& list, const Object& times) {
  if (!emit_.is_number(times) || is_float(emit_.dtype(times))) {
    emit_.fail(ErrorCode::TypeMismatch, fmt::format("a list cannot be repeated {} times", describe(times)), "int(…) makes a whole number");
  }
  const auto* cell = list.as<Cell>();
  if (!cell || !(sequence_of(list) || are_alike_values(content(*cell)))) {
    emit_.fail(ErrorCode::Unsupported, fmt::format("how often a {} is repeated must be known to the compiler", describe(list)),
               "a list of numbers, or of tensors of one shape, may be repeated as often as a run says");
  }
  const bool are_numbers = holds_numbers(content(*cell));
  Node* items = as_array(list).as<Array>()->node;
  std::vector<Object> repeats(static_cast<size_t>(emit_.rank(items)), make_integer(1));
  repeats[0] = {Array{emit_.op("Max", {emit_.tensor(times, DType::I64), emit_.integer(0)}), true}};
  return {make_cell(Cell::Kind::List, Object{Array{unstacked(emit_.op("Tile", {items, emit_.vector(repeats)})), are_numbers}})};
}

// Whether a list's content is of numbers of Python alone.
bool Lowering::holds_numbers(const Object& content) {
  return content.tuple() ? std::ranges::all_of(content.tuple()->items, [](const Object& item) { return Emitter::is_number(item); })
                         : content.as<Array>()->is_number;
}

// Whether these are numbers, or tensors of one shape and type: some at least, which a sequence may hold.
bool Lowering::are_alike_values(const Object& content) {
  const Items* items = content.tuple();
  if (!items || items->items.empty()) return false;
  if (holds_numbers(content)) return true;
  const auto* first = items->items[0].as<Array>();
  return first && std::ranges::all_of(items->items, [&](const Object& item) {
    const auto* array = item.as<Array>();
    return array && array->node->type() == first->node->type() && array->node->type()->is_tensor() && array->node->type()->static_shape();
  });
}

// The parts of a tensor along its first axis, as a list whose length a run decides holds them.
Node* Lowering::unstacked(Node* tensor) { return emit_.op("SplitToSequence", {tensor}, {{"axis", 0}, {"keepdims", 0}}); }

// The content of a list whose items a run chooses among; as it is where it holds other things than numbers and tensors.
Object Lowering::as_sequence(const Object& list) {
  const Object& held = content(*list.as<Cell>());
  if (!are_alike_values(held)) return held;
  return {Array{unstacked(as_array(list).as<Array>()->node), holds_numbers(held)}};
}

Object Lowering::as_array(const Object& object) {
  if (object.is<Array>() || is_known_number(object)) return object;
  return {Array{emit_.tensor(known_items(object))}};
}

// Lists as tuples, at any depth; as tensors where a run decides their length.
Object Lowering::known_items(const Object& object) {
  if (!object.tuple() && !object.is<Cell>()) return object;
  if (ir::Node* sequence = sequence_of(object)) return {Array{stacked(sequence)}};
  std::vector<Object> items;
  for (const Object& item : items_of(object)) items.push_back(known_items(item));
  return make_tuple(std::move(items));
}

// Of a list whose length a run decides; else null.
ir::Node* Lowering::sequence_of(const Object& object) {
  const auto* cell = object.as<Cell>();
  const auto* array = cell && cell->kind == Cell::Kind::List ? content(*cell).as<Array>() : nullptr;
  return array && !array->node->type()->is_tensor() ? array->node : nullptr;
}

// The items along a new first axis; of none, a tensor of their type without elements.
ir::Node* Lowering::stacked(ir::Node* sequence) {
  const ir::Type* item = sequence->type()->element();
  if (!item || !item->is_tensor() || !item->has_rank()) {
    emit_.fail(ErrorCode::Unsupported, "the items of this list, whose length is only known when it runs, may have any rank",
               "items of one rank make a tensor");
  }
  std::vector<int64_t> shape;
  for (ir::Dim dim : item->dims()) shape.push_back(dim.as_constant().value_or(-1));
  return emit_.op("StackSequence", {sequence}, {{"dtype", static_cast<int64_t>(item->dtype())}, {"shape", std::move(shape)}});
}

std::vector<Object> Lowering::items_of(const Object& object) {
  if (object.is<Generator>()) return items_of(list_of(object));
  const Object iterable = iterated(object);
  if (iterable.is<Generator>()) return items_of(iterable);
  if (const Items* tuple = iterable.tuple()) return tuple->items;
  const auto* array = iterable.as<Array>();
  if (array && array->node->type()->is_tensor() && !array->is_number && emit_.rank(array->node) == 0) {
    emit_.fail(ErrorCode::TypeMismatch, fmt::format("{} has no items", describe(object)), kItems);
  }
  if (array || iterable.is<Iterable>()) {
    const auto count = integer_of(length(iterable));
    if (!count) {
      emit_.fail(ErrorCode::Unsupported,
                 fmt::format("how many items this {} has is only known when it runs", describe(object)),
                 "go over it with for, or give it a known size");
    }
    std::vector<Object> items;
    for (int64_t i = 0; i < *count; ++i) items.push_back(item(iterable, make_integer(i)));
    return items;
  }
  emit_.fail(ErrorCode::TypeMismatch, fmt::format("{} has no items", describe(object)), kItems);
}

Object Lowering::formatted(const Tree& e) {
  Object text = make_text("");
  for (const Tree* part : e.list("values")) {
    Object value = evaluate(part->is(Kind::FormattedValue) ? *part->child("value") : *part);
    const bool is_field = part->is(Kind::FormattedValue);
    const bool is_repr = is_field && part->text("conversion") == std::to_string(int{'r'});
    const bool is_plain = !is_field || (!part->child("format_spec") && part->text("conversion") != std::to_string(int{'a'}));
    if (const auto shown = text_of_instance(value); shown && is_plain && !is_repr) value = *shown;
    if (const auto* constant = value.as<Constant>(); constant && is_plain) value = make_text(is_repr ? repr(*constant) : str(*constant));
    if (!is_plain && value.is<Constant>()) {
      emit_.fail(ErrorCode::Unsupported, fmt::format("the format of {} is not supported in a compiled function", describe(value)),
                 "format it before the call");
    }
    if (!is_plain || !is_text(value) || (is_repr && !value.is<Constant>())) {
      emit_.fail(ErrorCode::Unsupported, "a text that depends on values of the run is not supported",
                 "print(a, b) writes several values");
    }
    text = text_of(text) == "" ? value : emit_.binary(Kind::Add, text, value);
  }
  return text;
}

Object Lowering::make_closure(const Tree& function) {
  Object object = undecorated(function);
  const Tree::Trees& decorators = function.list("decorator_list");
  for (auto d = decorators.rbegin(); d != decorators.rend(); ++d)
    object = call(evaluate(**d), {.positional = {std::move(object)}, .named = {}});
  return object;
}

Object Lowering::undecorated(const Tree& function) {
  auto made = std::make_shared<Closure>();
  made->source = activation_->closure.source;
  made->function = &function;
  made->globals = activation_->closure.globals;
  made->captured = activation_->closure.captured;
  const Scope& scope = activation_->cfg.scope;
  for (const std::string& variable : scope.locals) {
    made->captured.erase(variable);
    if (scope.captured.contains(variable)) made->captured[variable] = *variable_cell(variable);
  }
  const Tree* arguments = function.child("args");
  Items defaults, keyword_defaults;
  for (const Tree* value : arguments->list("defaults")) defaults.items.push_back(evaluate(*value));
  for (const Tree* value : arguments->list("kw_defaults")) {
    keyword_defaults.items.push_back(value ? evaluate(*value)
                                           : Object{Constant{EllipsisValue()}});  // never read where there is none
  }
  made->defaults = std::make_shared<const Items>(std::move(defaults));
  made->keyword_defaults = std::make_shared<const Items>(std::move(keyword_defaults));
  return {std::shared_ptr<const Closure>(std::move(made))};
}

namespace {

Tree* make_name(Source& source, const std::string& id, Kind context, const Position& at) {
  Tree* made = source.make(Kind::Name, at);
  made->fields.emplace_back("id", id);
  made->fields.emplace_back("ctx", source.make(context, at));
  return made;
}

// def NAME(.0): .result = []; for TARGET in .0: if TEST: .result.append(ELEMENT); return .result
// Of a generator expression: def NAME(.0): for TARGET in .0: if TEST: yield ELEMENT
Tree* comprehension_function(Source& source, const Tree& e) {
  const Position& at = e.position;
  const std::string result = ".result", first = ".0";
  auto statement = [&](Kind kind, std::vector<std::pair<std::string, Tree::Field>> fields) {
    Tree* made = source.make(kind, at);
    made->fields = std::move(fields);
    return made;
  };
  Tree* step;
  if (e.is(Kind::DictComp)) {
    Tree* target = statement(Kind::Subscript, {{"value", make_name(source, result, Kind::Load, at)},
                                               {"slice", e.child("key")},
                                               {"ctx", source.make(Kind::Store, at)}});
    step = statement(Kind::Assign, {{"targets", Tree::Trees{target}}, {"value", e.child("value")}});
  } else if (e.is(Kind::GeneratorExp)) {
    step = statement(Kind::Expr, {{"value", statement(Kind::Yield, {{"value", e.child("elt")}})}});
  } else {
    Tree* append = statement(Kind::Attribute, {{"value", make_name(source, result, Kind::Load, at)},
                                               {"attr", std::string("append")},
                                               {"ctx", source.make(Kind::Load, at)}});
    Tree* call =
        statement(Kind::Call, {{"func", append}, {"args", Tree::Trees{e.child("elt")}}, {"keywords", Tree::Trees{}}});
    step = statement(Kind::Expr, {{"value", call}});
  }
  const Tree::Trees& generators = e.list("generators");
  for (size_t i = generators.size(); i-- > 0;) {
    const Tree::Trees& tests = generators[i]->list("ifs");
    for (size_t t = tests.size(); t-- > 0;)
      step = statement(Kind::If, {{"test", tests[t]}, {"body", Tree::Trees{step}}, {"orelse", Tree::Trees{}}});
    Tree* iterable = i == 0 ? make_name(source, first, Kind::Load, at) : generators[i]->child("iter");
    step = statement(Kind::For, {{"target", generators[i]->child("target")},
                                 {"iter", iterable},
                                 {"body", Tree::Trees{step}},
                                 {"orelse", Tree::Trees{}}});
  }
  const Kind display = e.is(Kind::DictComp) ? Kind::Dict : Kind::List;
  Tree* empty = statement(display, {{"elts", Tree::Trees{}}, {"keys", Tree::Trees{}}, {"values", Tree::Trees{}}});
  Tree* begin =
      statement(Kind::Assign, {{"targets", Tree::Trees{make_name(source, result, Kind::Store, at)}}, {"value", empty}});
  Tree* end = statement(Kind::Return, {{"value", make_name(source, result, Kind::Load, at)}});
  const Tree::Trees body = e.is(Kind::GeneratorExp) ? Tree::Trees{step} : Tree::Trees{begin, step, end};
  Tree* parameter = statement(Kind::arg, {{"arg", first}});
  Tree* arguments = statement(Kind::arguments, {{"posonlyargs", Tree::Trees{}},
                                                {"args", Tree::Trees{parameter}},
                                                {"kwonlyargs", Tree::Trees{}},
                                                {"kw_defaults", Tree::Trees{}},
                                                {"defaults", Tree::Trees{}}});
  return statement(Kind::FunctionDef, {{"name", std::string(kComprehension)},
                                       {"args", arguments},
                                       {"body", body},
                                       {"decorator_list", Tree::Trees{}}});
}

}  // namespace

// A function of its own, as in Python. It captures the variables around it as they are now.
Object Lowering::comprehension(const Tree& e) {
  Tree*& function = comprehensions_[&e];
  if (!function) function = comprehension_function(*activation_->closure.source, e);
  auto made = std::make_shared<Closure>();
  made->source = activation_->closure.source;
  made->function = function;
  made->globals = activation_->closure.globals;
  made->captured = activation_->closure.captured;
  const Scope& scope = activation_->cfg.scope;
  std::set<std::string> used;
  for_each_use(*function, [&](const Tree& name) { used.insert(name.text("id")); });
  for (size_t i = 0; i < scope.locals.size(); ++i) {
    made->captured.erase(scope.locals[i]);
    const Local& local = here_.locals[i];
    if (!local.object || !used.contains(scope.locals[i])) continue;
    const bool is_shared = scope.captured.contains(scope.locals[i]);
    made->captured[scope.locals[i]] =
        is_shared ? *local.object->as<Cell>() : *make_cell(Cell::Kind::Variable, *local.object).as<Cell>();
  }
  const Object first = evaluate(*e.list("generators")[0]->child("iter"));
  return call({std::shared_ptr<const Closure>(std::move(made))}, {.positional = {first}, .named = {}});
}

Object Lowering::call_expression(const Tree& e) {
  const Object callee = evaluate(*e.child("func"));
  Arguments arguments;
  for (const Tree* argument : e.list("args")) {
    if (!argument->is(Kind::Starred)) {
      arguments.positional.push_back(evaluate(*argument));
      continue;
    }
    for (Object& item : items_of(evaluate(*argument->child("value")))) arguments.positional.push_back(std::move(item));
  }
  for (const Tree* keyword : e.list("keywords")) {
    const Object value = evaluate(*keyword->child("value"));
    if (!keyword->text("arg").empty()) {
      arguments.named.emplace_back(keyword->text("arg"), value);
      continue;
    }
    const auto* cell = value.as<Cell>();
    if (!cell || cell->kind != Cell::Kind::Dict)
      emit_.fail(ErrorCode::TypeMismatch, fmt::format("** takes a dict, this is {}", describe(value)),
                 "write {\"name\": value}");
    const std::vector<Object> pairs = content(*cell).tuple()->items;
    for (size_t i = 0; i < pairs.size(); i += 2)
      arguments.named.emplace_back(text_of(pairs[i]).value_or(""), pairs[i + 1]);
  }
  return call(callee, std::move(arguments));
}

}  // namespace anfora::python
