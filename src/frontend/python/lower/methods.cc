// Attributes, and methods of what is built in.
#include <fmt/format.h>

#include <algorithm>

#include "anfora/error.h"
#include "frontend/python/lower/activation.h"
#include "frontend/python/lower/builtins.h"

namespace anfora::python {

using ir::Node;

namespace {

constexpr std::string_view kDequeMethods[] = {"appendleft", "popleft", "extendleft", "rotate"};
constexpr std::string_view kNamedTupleMethods[] = {"_replace", "_asdict"};

}  // namespace

Object Lowering::attribute(const Object& object, const std::string& name) {
  if (const Items* tuple = object.tuple()) {
    if (const Object* field = find_attribute(*tuple, name)) return *field;
    const bool is_tuple = !tuple->type || tuple->type->is_a("tuple");
    if (is_tuple && !tuple->names.empty() && std::ranges::count(kNamedTupleMethods, name)) return {Method{std::make_shared<const Object>(object), name}};
    if (is_tuple && (name == "index" || name == "count")) return {Method{std::make_shared<const Object>(object), name}};
  }
  if (auto found = find_attribute_of(object, name)) return *found;
  if (object.instance() || object.is<Super>()) {
    emit_.fail(ErrorCode::NotFound, fmt::format("{} has no attribute '{}'", describe(object), name),
               "assign it in __init__, or define it in the class");
  }
  if (const auto* builtin = object.as<Builtin>()) {
    if (name == "__name__") return make_text(builtin->name.substr(builtin->name.rfind('.') + 1));
    const bool is_library = activation_ && activation_->closure.source->is_library;
    if (auto found = find_in_module(builtin->name, name, is_library ? Asks::Library : Asks::Program)) return *found;
    emit_.fail(ErrorCode::Unsupported, fmt::format("{} has no '{}' that can be compiled", builtin->name, name),
               "docs/language.md lists what is there");
  }
  if (const Closure* closure = object.closure(); closure && closure->source->is_library) {  // chain.from_iterable
    if (auto found = closure->globals->find(fmt::format("_{}_{}", closure->function->text("name"), name))) return *found;
  }
  if (const auto* slice = object.as<SliceObject>()) {
    constexpr std::string_view kParts[] = {"start", "stop", "step"};
    const auto* found = std::ranges::find(kParts, name);
    if (found != std::end(kParts)) return slice->parts->items[static_cast<size_t>(found - kParts)];
  }
  if (object.is<Generator>() && name == "send") return {Method{std::make_shared<const Object>(object), name}};
  if (const Live* live = object.live()) {
    if (auto found = at_place([&] { return live->attribute(name); })) return *found;
    emit_.fail(ErrorCode::NotFound, fmt::format("{} has no '{}'", live->describe(), name),
               "the object that runs now is meant");
  }
  const auto* array = object.as<Array>();
  if (array && array->node->type()->is_tensor()) {
    Node* node = array->node;
    if (name == "shape") return shape(node);
    if (name == "ndim") return make_integer(emit_.rank(node));
    if (name == "dtype") return {DTypeObject{node->type()->dtype()}};
    if (name == "T" || name == "size") return call(*find_tensor_method(name), {.positional = {object}, .named = {}});
  }
  static constexpr std::string_view kSetMethods[] = {
      "add",   "discard",  "remove", "pop",        "clear",      "copy",       "update", "union", "intersection", "intersection_update",
      "difference", "difference_update", "symmetric_difference", "symmetric_difference_update", "issubset", "issuperset", "isdisjoint"};
  static constexpr std::string_view kFrozenMethods[] = {"copy",     "union",      "intersection", "difference", "symmetric_difference",
                                                        "issubset", "issuperset", "isdisjoint"};
  const bool is_list = object.is<Cell>() || (array && !array->node->type()->is_tensor());
  static constexpr std::string_view kListMethods[] = {"append",  "extend", "insert", "pop",  "copy",
                                                      "reverse", "clear",  "index",  "count", "sort", "remove"};
  static constexpr std::string_view kDictMethods[] = {"get",    "items", "keys", "values",
                                                      "update", "pop",   "copy", "setdefault", "clear", "popitem"};
  const auto* cell = object.as<Cell>();
  const bool is_dict = cell && cell->kind == Cell::Kind::Dict;
  const auto collection = cell ? collections_.find(cell->id) : collections_.end();
  const std::string type = collection == collections_.end() ? "" : collection->second.type;
  const bool has_more = type == "deque"         ? std::ranges::count(kDequeMethods, name) > 0
                        : type == "OrderedDict" ? name == "move_to_end"
                                                : type == "Counter" && (name == "most_common" || name == "total");
  const bool has = has_more      ? true
                   : object.constant<std::u32string>() ? has_text_method(name)
                   : set_of(object)
                       ? std::ranges::count(cell ? std::span<const std::string_view>(kSetMethods) : kFrozenMethods, name) > 0
                   : is_dict ? std::ranges::count(kDictMethods, name)
                   : is_list ? std::ranges::count(kListMethods, name)
                             : Emitter::is_numeric(object) && find_tensor_method(name);
  if (!has)
    emit_.fail(ErrorCode::Unsupported, fmt::format("{} has no '{}' that can be compiled", describe(object), name),
               object.is_none()           ? "test for None before"
               : object.is<Generator>() ? "a generator gives items to for, next(), and what takes what has items"
               : object.is<SetObject>() ? "a frozenset, and a set of the caller, are not changed: take a copy, set(…)"
                                        : "docs/language.md lists the methods");
  return {Method{std::make_shared<const Object>(object), name}};
}

Object Lowering::shape(Node* tensor) {
  std::vector<Object> sizes;
  for (int axis = 0; axis < emit_.rank(tensor); ++axis) sizes.push_back(emit_.size(tensor, axis));
  return make_tuple(std::move(sizes));
}

// dict.update(): with what dict(…) takes, another dict or pairs, and names.
void Lowering::update_dict(const Object& dict, const Arguments& with) {
  auto put = [&](const Object& key, const Object& value) {
    here_.store[dict.as<Cell>()->id] = with_item(dict, key, value);
  };
  for (const Object& others : with.positional) {
    if (const auto* cell = others.as<Cell>(); cell && cell->kind == Cell::Kind::Dict) {
      const std::vector<Object> pairs = content(*cell).tuple()->items;
      for (size_t i = 0; i < pairs.size(); i += 2) put(pairs[i], pairs[i + 1]);
      continue;
    }
    for (const Object& pair : items_of(others)) {
      const std::vector<Object> parts = items_of(pair);
      if (parts.size() != 2) {
        emit_.fail(ErrorCode::TypeMismatch, fmt::format("a dict of {}", describe(pair)), "it is made of pairs: dict([(key, value)])");
      }
      put(parts[0], parts[1]);
    }
  }
  for (const auto& [key, value] : with.named) put(make_text(key), value);
}

Object Lowering::call_method(const Method& method, Arguments arguments) {
  const auto* cell = method.self->as<Cell>();
  if (const auto* text = method.self->constant<std::u32string>()) return call_text_method(*text, method.name, arguments);
  if (method.self->instance()) {  // super().__init__(), where no class above defines it
    if (!arguments.positional.empty() || !arguments.named.empty())
      emit_.fail(ErrorCode::InvalidArgument, fmt::format("{}() of object takes no arguments", method.name));
    return {Constant{NoneValue()}};
  }
  if (method.self->is<Generator>()) {
    if (arguments.positional.size() != 1 || !arguments.named.empty()) emit_.fail(ErrorCode::InvalidArgument, "send() takes 1 argument");
    return send(*method.self, arguments.positional[0]);
  }
  if (set_of(*method.self)) {
    if (!arguments.named.empty()) emit_.fail(ErrorCode::InvalidArgument, fmt::format("{}() of a set takes no keywords", method.name));
    if (auto result = call_set_method(*method.self, method.name, arguments.positional)) return *result;
  }
  if (const Items* tuple = method.self->tuple()) {
    if (method.name == "_asdict") {
      const Object dict = new_dict({});
      for (size_t i = 0; i < tuple->names.size(); ++i) here_.store[dict.as<Cell>()->id] = with_item(dict, make_text(tuple->names[i]), tuple->items[i]);
      return dict;
    }
    if (method.name == "_replace") {
      Items changed = *tuple;
      for (auto& [name, value] : arguments.named) {
        const auto field = std::ranges::find(changed.names, name);
        if (field == changed.names.end())
          emit_.fail(ErrorCode::InvalidArgument, fmt::format("{} has no field '{}'", describe(*method.self), name));
        changed.items[static_cast<size_t>(field - changed.names.begin())] = std::move(value);
      }
      return {std::make_shared<const Items>(std::move(changed))};
    }
    arguments.positional.insert(arguments.positional.begin(), *method.self);
    return call(*find_in_library("builtins", fmt::format("_{}_of", method.name)), std::move(arguments));
  }
  if (!cell) {
    arguments.positional.insert(arguments.positional.begin(), *method.self);
    return call(*find_tensor_method(method.name), std::move(arguments));
  }
  const std::vector<Object>& given = arguments.positional;
  auto need = [&](size_t least, size_t most, std::span<const std::string_view> names = {}) {
    const bool are_named = std::ranges::all_of(arguments.named, [&](const auto& entry) { return std::ranges::count(names, entry.first) > 0; });
    if (given.size() < least || given.size() > most || !are_named) {
      emit_.fail(ErrorCode::InvalidArgument,
                 fmt::format("{}() takes {} argument{}", method.name, most, most == 1 ? "" : "s"),
               "others that CPython takes are not supported");
    }
  };
  const Object none{Constant{NoneValue()}};
  const Object held = content(*cell);
  static constexpr std::string_view kReading[] = {"copy", "get", "keys", "values", "items"};
  if (!std::ranges::count(kReading, method.name)) require_own(*cell);
  Object& kept = here_.store[cell->id];
  if (cell->kind == Cell::Kind::Dict) {
    const std::vector<Object>& pairs = held.tuple()->items;
    const auto collection = collections_.find(cell->id);
    const bool is_counter = collection != collections_.end() && collection->second.type == "Counter";
    if (method.name == "copy") return copy_of(*cell);
    if (method.name == "update" && is_counter && !given.empty()) return count_items(*method.self, given[0]), none;
    if (method.name == "update") return update_dict(*method.self, arguments), none;
    if (method.name == "clear") return kept = make_tuple({}), none;
    if (method.name == "most_common" || method.name == "total") {
      arguments.positional.insert(arguments.positional.begin(), *method.self);
      return call(*find_in_library("collections", "_" + method.name), std::move(arguments));
    }
    if (method.name == "popitem") {
      need(0, 0);
      if (pairs.empty()) emit_.fail(ErrorCode::InvalidArgument, "popitem() of an empty dict", "test for items before: if d");
      kept = make_tuple({pairs.begin(), pairs.end() - 2});
      return make_tuple({pairs[pairs.size() - 2], pairs.back()});
    }
    if (method.name == "move_to_end") {
      need(1, 1);
      const Object value = subscript(*method.self, given[0]);
      std::vector<Object> rest;
      for (size_t i = 0; i < pairs.size(); i += 2) {
        if (differs(pairs[i], given[0])) rest.insert(rest.end(), {pairs[i], pairs[i + 1]});
      }
      rest.insert(rest.end(), {given[0], value});
      return here_.store[cell->id] = make_tuple(std::move(rest)), none;
    }
    if (method.name == "get" || method.name == "pop" || method.name == "setdefault") {
      need(1, 2);
      if (method.name != "get") require_known_key(given[0]);
      if (auto found = item_by_run_key(pairs, given[0], [&] { return given.size() > 1 ? given[1] : none; })) return *found;
      for (size_t i = 0; i < pairs.size(); i += 2) {
        if (differs(pairs[i], given[0])) continue;
        const Object value = pairs[i + 1];
        if (method.name == "pop") {
          std::vector<Object> rest = pairs;
          rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i), rest.begin() + static_cast<std::ptrdiff_t>(i) + 2);
          kept = make_tuple(std::move(rest));
        }
        return value;
      }
      if (method.name == "pop" && given.size() == 1)
        return subscript(*method.self, given[0]);  // says that it is not there
      const Object value = given.size() > 1 ? given[1] : none;
      if (method.name == "setdefault") here_.store[cell->id] = with_item(*method.self, given[0], value);
      return value;
    }
    std::vector<Object> items;
    for (size_t i = 0; i < pairs.size(); i += 2) {
      items.push_back(method.name == "keys"     ? pairs[i]
                      : method.name == "values" ? pairs[i + 1]
                                                : make_tuple({pairs[i], pairs[i + 1]}));
    }
    return make_tuple(std::move(items));
  }
  if (method.name == "copy") return copy_of(*cell);
  if (std::ranges::count(kDequeMethods, method.name)) {
    if (auto result = call_deque_method(*cell, method.name, given)) return *result;
  }
  if (collections_.contains(cell->id) && (method.name == "append" || method.name == "extend")) {
    Method plain{std::make_shared<const Object>(make_cell(Cell::Kind::List, held)), method.name};
    call_method(plain, std::move(arguments));
    here_.store[cell->id] = content(*plain.self->as<Cell>());
    return shorten(*cell, true), none;
  }
  if (method.name == "index" || method.name == "count" || method.name == "remove") {
    need(1, 1);
    const std::string_view function = method.name == "index" ? "_index_of" : method.name == "count" ? "_count_of" : "_remove_from";
    return call(*find_in_library("builtins", std::string(function)), {.positional = {*method.self, given[0]}, .named = {}});
  }
  if (method.name == "sort") {
    constexpr std::string_view kNames[] = {"key", "reverse"};
    need(0, 0, kNames);
    arguments.positional = {*method.self};
    const Object ordered = content(*call(*find_builtin("sorted"), std::move(arguments)).as<Cell>());
    here_.store[cell->id] = ordered;
    return none;
  }
  if (method.name == "extend" && cell->kind == Cell::Kind::List && (!held.tuple() || (given.size() == 1 && sequence_of(given[0])))) {
    need(1, 1);
    return call(*find_in_library("builtins", "_extend"), {.positional = {*method.self, given[0]}, .named = {}});
  }
  const bool chooses = (method.name == "pop" || method.name == "insert") && !given.empty() && !integer_of(given[0]) && Emitter::is_numeric(given[0]);
  const Object items_to_choose = chooses && cell->kind == Cell::Kind::List ? as_sequence(*method.self) : held;
  if (const auto* array = items_to_choose.as<Array>()) {  // a sequence
    Node* sequence = array->node;
    const bool are_numbers = array->is_number;
    if (method.name == "append" || method.name == "insert") {
      need(method.name == "append" ? 1 : 2, method.name == "append" ? 1 : 2);
      Node* item = list_item(sequence, given.back());
      Node* longer = method.name == "append" ? emit_.op("SequenceInsert", {sequence, item})
                                             : emit_.op("SequenceInsert", {sequence, item, emit_.tensor(given[0])});
      kept = {Array{longer, are_numbers && Emitter::is_number(given.back())}};
      return none;
    }
    if (method.name == "pop") {
      need(0, 1);
      Node* position = given.empty() ? emit_.integer(-1) : emit_.tensor(given[0]);
      const Object item{Array{emit_.op("SequenceAt", {sequence, position}), are_numbers}};
      kept = {Array{emit_.op("SequenceErase", {sequence, position}), are_numbers}};
      return item;
    }
    if (method.name == "clear") return kept = make_tuple({}), none;
    emit_.fail(ErrorCode::Unsupported,
               fmt::format("{}() of a list whose length is only known when it runs is not supported", method.name),
               "append, insert, pop and clear are");
  }
  std::vector<Object> items = held.tuple()->items;
  if (method.name == "append") {
    need(1, 1);
    items.push_back(given[0]);
  } else if (method.name == "extend") {
    need(1, 1);
    for (Object& item : items_of(given[0])) items.push_back(std::move(item));
  } else if (method.name == "insert") {
    need(2, 2);
    const auto at = integer_of(given[0]);
    if (!at)
      emit_.fail(ErrorCode::Unsupported, "where it is inserted must be known to the compiler",
                 "append() takes no position");
    const auto size = static_cast<int64_t>(items.size());
    items.insert(items.begin() + std::clamp(*at < 0 ? *at + size : *at, int64_t{0}, size), given[1]);
  } else if (method.name == "pop") {
    need(0, 1);
    const auto at = known_index(given.empty() ? make_integer(-1) : given[0], items.size());
    const Object item = items[static_cast<size_t>(at)];
    items.erase(items.begin() + at);
    kept = make_tuple(std::move(items));
    return item;
  } else if (method.name == "reverse") {
    std::ranges::reverse(items);
  } else if (method.name == "clear") {
    items.clear();
  } else {
    emit_.fail(ErrorCode::Unsupported,
               fmt::format("{}() of a list is not supported in a compiled function", method.name),
               "append, extend, insert, pop, reverse, clear and copy are; sorted(…) gives a sorted one");
  }
  kept = make_tuple(std::move(items));
  return none;
}

// A value as an item of a list whose length a run decides; its items are of one element type.
Node* Lowering::list_item(Node* sequence, const Object& value) {
  const DType dtype = sequence->type()->element()->dtype();
  const Object item = as_array(value);
  const DType own = emit_.dtype(item);
  const bool is_widened = Emitter::is_number(item) && ((dtype == DType::F64 && !is_float(own)) || (dtype == DType::I64 && own == DType::Bool));
  if (is_widened) return emit_.tensor(item, dtype);
  if (own != dtype) {
    emit_.fail(ErrorCode::TypeMismatch,
               fmt::format("{} in a list of {}, whose length is only known when it runs", describe(value),
                           anfora::name(dtype)),
               "such a list has items of one type: float(…), int(…) or astype() convert");
  }
  return emit_.tensor(item);
}

}  // namespace anfora::python
