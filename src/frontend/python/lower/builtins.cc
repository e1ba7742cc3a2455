#include "frontend/python/lower/builtins.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <mutex>
#include <numbers>

#include "anfora/error.h"
#include "frontend/python/lower/library.h"
#include "frontend/python/lower/lowering.h"

namespace anfora::python {

using ir::Node;

// Names --------------------------------------------------------------------------------------------------------------

namespace {

// A file of the library, read when it is first asked for.
class LibraryModule : public Globals, public std::enable_shared_from_this<LibraryModule> {
 public:
  explicit LibraryModule(std::string_view json) : source_(read_source(json)) { source_.is_library = true; }

  std::optional<Object> find(const std::string& name) const override {
    if (name == "ops") return find_module("anfora.ops");
    if (name == "numpy" || name == "anfora") return find_module(name);
    const Tree* function = source_.find_definition(name);
    if (!function) return std::nullopt;
    Closure closure;
    closure.source = const_cast<Source*>(&source_);
    closure.function = function;
    closure.globals = shared_from_this();
    return Object{std::make_shared<const Closure>(std::move(closure))};
  }
  std::optional<Object> import(const std::string& module) const override { return find_module(module); }
  std::optional<Object> import(const std::string& module, const std::string& name) const override {
    return find_in_module(module, name);
  }

 private:
  Source source_;
};

std::optional<Object> find_in_library(std::string_view file, const std::string& name) {
  // Lowering rewrites trees as it goes: each thread has its own.
  thread_local std::map<std::string, std::shared_ptr<const LibraryModule>, std::less<>> modules;
  auto known = modules.find(file);
  if (known == modules.end()) {
    auto text = std::ranges::find(library_trees(), fmt::format("{}.py.json", file), &LibraryTree::name);
    if (text == library_trees().end()) return std::nullopt;
    known = modules.emplace(file, std::make_shared<const LibraryModule>(text->text)).first;
  }
  return known->second->find(name);
}

constexpr std::string_view kFunctions[] = {"len",   "range", "zip",     "enumerate", "reversed", "int",
                                           "float", "bool",  "tuple",   "list",      "dict",     "isinstance",
                                           "print", "str",   "getattr", "object",    "slice",    "hasattr",
                                           "set",   "type",  "frozenset", "iter",     "next"};
constexpr std::string_view kModules[] = {"numpy",  "math",      "anfora",       "anfora.ops", "numpy.linalg",
                                         "typing", "functools", "operator", "numpy.fft", "itertools", "collections"};
constexpr std::string_view kCollections[] = {"namedtuple", "deque", "defaultdict", "OrderedDict", "Counter"};
// `numpy.r_[index]` is r___getitem__(index) of the library.
constexpr const char* kGetItem = "__getitem__";
// What the library is written with.
constexpr std::string_view kTransformations[] = {"grad", "value_and_grad", "tree_map", "stop_gradient", "custom_gradient"};
constexpr std::string_view kIntrinsics[] = {"promote",   "as_float", "cast", "as_tensor",   "shape_of",
                                            "is_number", "ops",      "fail", "result_float", "is_known", "unordered",
                                            "is_generator"};

}  // namespace

std::optional<Object> find_builtin(const std::string& name) {
  if (std::ranges::count(kFunctions, name)) return Object{Builtin{name}};
  return find_in_library("builtins", name);
}

std::optional<Object> find_module(const std::string& name) {
  if (name.starts_with("anfora.numpy")) return find_module(name.substr(std::string_view("anfora.").size()));
  if (!std::ranges::count(kModules, name)) return std::nullopt;
  return Object{Builtin{name}};
}

std::optional<Object> find_in_module(const std::string& module, const std::string& name) {
  if (module == "anfora.ops") return Object{Builtin{"anfora.ops." + name}};
  if (module == "collections" && std::ranges::count(kCollections, name)) return Object{Builtin{"collections." + name}};
  if (module == "anfora" && (std::ranges::count(kIntrinsics, name) || std::ranges::count(kTransformations, name)))
    return Object{Builtin{"anfora." + name}};
  const std::string inner = module + "." + name;
  if (auto found = find_module(inner)) return found;
  if (module == "numpy" || module == "math") {
    static const std::map<std::string, double> kNumbers = {{"pi", std::numbers::pi},
                                                           {"e", std::numbers::e},
                                                           {"inf", std::numeric_limits<double>::infinity()},
                                                           {"nan", std::nan("")},
                                                           {"tau", 2 * std::numbers::pi}};
    if (auto number = kNumbers.find(name); number != kNumbers.end()) return Object{Constant{number->second}};
  }
  if (module == "numpy") {
    static const std::map<std::string, DType> kTypes = {
        {"float64", DType::F64},   {"float32", DType::F32},    {"float16", DType::F16}, {"int64", DType::I64},
        {"int32", DType::I32},     {"int16", DType::I16},      {"int8", DType::I8},     {"uint64", DType::U64},
        {"uint32", DType::U32},    {"uint16", DType::U16},     {"uint8", DType::U8},    {"bool_", DType::Bool},
        {"double", DType::F64},    {"single", DType::F32},     {"half", DType::F16},    {"intp", DType::I64},
        {"complex64", DType::C64}, {"complex128", DType::C128}};
    if (auto type = kTypes.find(name); type != kTypes.end()) return Object{DTypeObject{type->second}};
    if (name == "newaxis") return Object{Constant{NoneValue()}};
    if (name == "ndarray") return Object{Builtin{"numpy.ndarray"}};
  }
  if (find_in_library(module, name + kGetItem)) return Object{Builtin{inner}};
  return find_in_library(module, name);
}

std::optional<Object> find_subscript(const std::string& object) {
  const size_t dot = object.rfind('.');
  return dot == std::string::npos ? std::nullopt : find_in_library(object.substr(0, dot), object.substr(dot + 1) + kGetItem);
}

std::optional<Object> find_tensor_method(const std::string& name) { return find_in_library("tensor", name); }

// Attributes ---------------------------------------------------------------------------------------------------------

namespace {

constexpr std::string_view kDequeMethods[] = {"appendleft", "popleft", "extendleft", "rotate"};
constexpr std::string_view kNamedTupleMethods[] = {"_replace", "_asdict"};

}  // namespace

Object Lowering::attribute(const Object& object, const std::string& name) {
  if (const auto* builtin = object.as<Builtin>()) {
    if (name == "__name__") return make_text(builtin->name.substr(builtin->name.rfind('.') + 1));
    if (auto found = find_in_module(builtin->name, name)) return *found;
    emit_.fail(ErrorCode::Unsupported, fmt::format("{} has no '{}' that can be compiled", builtin->name, name),
               "docs/language.md lists what is there");
  }
  if (const Closure* closure = object.closure(); closure && closure->source->is_library) {  // chain.from_iterable
    if (auto found = closure->globals->find(fmt::format("{}_{}", closure->function->text("name"), name))) return *found;
  }
  if (const auto* slice = object.as<SliceObject>()) {
    constexpr std::string_view kParts[] = {"start", "stop", "step"};
    const auto* found = std::ranges::find(kParts, name);
    if (found != std::end(kParts)) return slice->parts->items[static_cast<size_t>(found - kParts)];
  }
  if (const Items* tuple = object.tuple()) {
    auto found = std::ranges::find(tuple->names, name);
    if (found != tuple->names.end()) return tuple->items[static_cast<size_t>(found - tuple->names.begin())];
    if (!tuple->names.empty() && std::ranges::count(kNamedTupleMethods, name)) return {Method{std::make_shared<const Object>(object), name}};
    if (name == "index" || name == "count") return {Method{std::make_shared<const Object>(object), name}};
  }
  if (const Live* live = object.live()) {
    if (auto found = live->attribute(name)) return *found;
    emit_.fail(ErrorCode::NotFound, fmt::format("{} has no '{}'", live->describe(), name),
               "the object that runs now is meant");
  }
  if (const Items* tuple = object.tuple(); tuple && tuple->type) {  // a method
    if (auto found = tuple->type->attribute(name); found && found->closure()) {
      Closure bound = *found->closure();
      bound.bound.emplace_back("self", std::make_shared<const Object>(object));
      return {std::make_shared<const Closure>(std::move(bound))};
    }
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
    return call(*find_builtin(method.name + "_of"), std::move(arguments));
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
                 fmt::format("{}() takes {} argument{}", method.name, most, most == 1 ? "" : "s"));
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
      return call(*find_in_library("collections", method.name), std::move(arguments));
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
    const std::string_view function = method.name == "index" ? "index_of" : method.name == "count" ? "count_of" : "remove_from";
    return call(*find_builtin(std::string(function)), {.positional = {*method.self, given[0]}, .named = {}});
  }
  if (method.name == "sort") {
    constexpr std::string_view kNames[] = {"key", "reverse"};
    need(0, 0, kNames);
    arguments.positional = {*method.self};
    const Object ordered = content(*call(*find_builtin("sorted"), std::move(arguments)).as<Cell>());
    here_.store[cell->id] = ordered;
    return none;
  }
  if (!held.tuple()) {  // a sequence
    Node* sequence = held.as<Array>()->node;
    const bool are_numbers = held.as<Array>()->is_number;
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
  if (emit_.dtype(item) != dtype) {
    emit_.fail(ErrorCode::TypeMismatch,
               fmt::format("{} in a list of {}, whose length is only known when it runs", describe(value),
                           anfora::name(dtype)),
               "such a list has items of one type: float(…), int(…) or astype() convert");
  }
  return emit_.tensor(item);
}

// Functions ----------------------------------------------------------------------------------------------------------

Object Lowering::length(const Object& object) {
  if (const Items* tuple = object.tuple()) return make_integer(static_cast<int64_t>(tuple->items.size()));
  if (const auto* set = object.as<SetObject>()) return make_integer(static_cast<int64_t>(distinct_items(*set).size()));
  if (const auto* cell = object.as<Cell>()) {
    const Object& held = content(*cell);
    if (!held.tuple()) return length(held);
    return make_integer(static_cast<int64_t>(held.tuple()->items.size() / (cell->kind == Cell::Kind::Dict ? 2 : 1)));
  }
  if (const auto* text = object.constant<std::u32string>()) return make_integer(static_cast<int64_t>(text->size()));
  if (const auto* array = object.as<Array>(); array && !Emitter::is_number(object)) {
    if (!array->node->type()->is_tensor()) return emit_.number(emit_.op("SequenceLength", {array->node}));
    if (emit_.rank(array->node) > 0) return emit_.size(array->node, 0);
  }
  if (const auto* iterable = object.as<Iterable>()) {
    const std::vector<Object>& parts = iterable->parts->items;
    if (iterable->kind == Iterable::Kind::Range) {  // ⌈(stop − start) / step⌉; less than 0 for none
      if (integer_of(parts[2]) == 1)
        return integer_of(parts[0]) == 0 ? parts[1] : binary(Kind::Sub, parts[1], parts[0]);
      const Object span = binary(Kind::Sub, parts[0], parts[1]);
      return binary(Kind::Sub, make_integer(0), binary(Kind::FloorDiv, span, parts[2]));
    }
    Object least = length(parts[0]);
    for (size_t i = 1; i < parts.size() && iterable->kind == Iterable::Kind::Zip; ++i) {
      const Object other = length(parts[i]);
      if (const auto a = integer_of(least), b = integer_of(other); a && b) {
        least = make_integer(std::min(*a, *b));
      } else {
        least = emit_.number(emit_.op("Min", {emit_.tensor(least), emit_.tensor(other)}));
      }
    }
    return least;
  }
  emit_.fail(ErrorCode::TypeMismatch, fmt::format("{} has no length", describe(object)), kItems);
}

// The item of something iterable at an index from 0 on.
Object Lowering::item(const Object& object, const Object& index) {
  if (const Items* tuple = object.tuple()) {
    if (integer_of(index)) return tuple->items[static_cast<size_t>(known_index(index, tuple->items.size()))];
    const std::vector<Object>& items = tuple->items;
    const Items* first = items.empty() ? nullptr : items[0].tuple();
    const bool are_alike = first && std::ranges::all_of(items, [&](const Object& other) {
                             return other.tuple() && other.tuple()->items.size() == first->items.size();
                           });
    if (are_alike) {  // the item of each place
      std::vector<Object> parts;
      for (size_t k = 0; k < first->items.size(); ++k) {
        std::vector<Object> column;
        for (const Object& row : items) column.push_back(row.tuple()->items[k]);
        parts.push_back(item(make_tuple(std::move(column)), index));
      }
      return make_tuple(std::move(parts), first->names, first->type);
    }
    const bool are_numbers = std::ranges::all_of(items, Emitter::is_number);
    return {Array{emit_.op("Gather", {emit_.tensor(known_items(object)), emit_.tensor(index)}), are_numbers}};  // items that stack
  }
  if (const auto* array = object.as<Array>()) {
    if (array->node->type()->is_tensor()) return {Array{emit_.op("Gather", {array->node, emit_.tensor(index)})}};
    return {Array{emit_.op("SequenceAt", {array->node, emit_.tensor(index)}), array->is_number}};
  }
  const auto* iterable = object.as<Iterable>();
  if (!iterable) emit_.fail(ErrorCode::TypeMismatch, fmt::format("{} has no items", describe(object)), kItems);
  const std::vector<Object>& parts = iterable->parts->items;
  switch (iterable->kind) {
    case Iterable::Kind::Range: {
      const Object offset = integer_of(parts[2]) == 1 ? index : binary(Kind::Mult, index, parts[2]);
      return integer_of(parts[0]) == 0 ? offset : binary(Kind::Add, parts[0], offset);
    }
    case Iterable::Kind::Enumerate: return make_tuple({binary(Kind::Add, index, parts[1]), item(parts[0], index)});
    case Iterable::Kind::Reversed:
      return item(parts[0], binary(Kind::Sub, binary(Kind::Sub, length(parts[0]), make_integer(1)), index));
    case Iterable::Kind::Zip: break;
  }
  std::vector<Object> items;
  for (const Object& part : parts) items.push_back(item(part, index));
  return make_tuple(std::move(items));
}

namespace {

bool is_instance(const Object& object, const Object& type) {
  if (const Items* any = type.tuple()) {
    return std::ranges::any_of(any->items, [&](const Object& one) { return is_instance(object, one); });
  }
  if (const auto* dtype = type.as<DTypeObject>()) {
    const auto* array = object.as<Array>();
    return array && !array->is_number && array->node->type()->dtype() == dtype->dtype &&
           array->node->type()->has_rank() && array->node->type()->rank() == 0;
  }
  const auto* builtin = type.as<Builtin>();
  const std::string kind = describe(object);
  if (!builtin) return false;
  if (builtin->name == "numpy.ndarray") return object.is<Array>() && !object.as<Array>()->is_number;
  if (builtin->name == "tuple") return object.tuple() != nullptr;
  if (builtin->name == "int") return kind == "int" || kind == "bool";
  if (builtin->name == "set" || builtin->name == "frozenset") return object.is<SetObject>() || kind == builtin->name;
  return kind == builtin->name;
}

// Whether a run decides nothing of it.
bool is_known(const Object& object) {
  if (const Items* tuple = object.tuple()) return std::ranges::all_of(tuple->items, is_known);
  return !object.is<Array>();
}

}  // namespace

Object Lowering::type_of(const Object& object) {
  if (object.is<SetObject>()) return {Builtin{"set"}};
  if (const Items* tuple = object.tuple()) return tuple->type ? Object{tuple->type} : Object{Builtin{"tuple"}};
  const auto* array = object.as<Array>();
  if (array && !array->is_number && array->node->type()->is_tensor() && emit_.rank(array->node) > 0) return {Builtin{"numpy.ndarray"}};
  constexpr std::string_view kTypes[] = {"bool", "int", "float", "str", "list", "dict", "set"};
  const std::string kind = describe(object);
  if (std::ranges::count(kTypes, kind)) return {Builtin{kind}};
  emit_.fail(ErrorCode::Unsupported, fmt::format("type() of {} is not supported", kind), "isinstance(x, …) asks for a type");
}

void Lowering::print(const Arguments& arguments) {
  if (!arguments.named.empty()) {
    emit_.fail(ErrorCode::Unsupported, fmt::format("print() with {}= is not supported", arguments.named[0].first),
               "a compiled function prints lines to standard output");
  }
  std::string text;
  auto add = [&](const std::string& more) { text += (text.empty() ? "" : " ") + more; };
  for (const Object& argument : arguments.positional) {
    if (argument.is<Constant>()) {
      add(str(*argument.as<Constant>()));
      continue;
    }
    const std::vector<Object> shown = argument.is<Array>() ? std::vector<Object>{argument} : items_of(argument);
    for (const Object& one : shown) {
      set_token(emit_.op("Print", {token(), emit_.tensor(one)}, {{"message", text.c_str()}}));
      text.clear();
    }
  }
  if (!text.empty() || arguments.positional.empty()) {
    set_token(emit_.op("Print", {token(), emit_.tensor(make_text(text))}, {{"message", ""}}));
  }
}

// int("12"), float("1e3")
Object Lowering::number_of_text(const std::string& type, const std::string& text) const {
  const size_t begin = text.find_first_not_of(" \t\n"), end = text.find_last_not_of(" \t\n");
  const std::string digits = begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
  int64_t integer = 0;
  double number = 0;
  const char *first = digits.data() + (digits.starts_with('+') ? 1 : 0), *last = digits.data() + digits.size();
  const auto read =
      type == "int" ? std::from_chars(first, last, integer).ptr : std::from_chars(first, last, number).ptr;
  if (digits.empty() || read != last) {
    emit_.fail(ErrorCode::InvalidArgument, fmt::format("{}() of the text '{}', which is no number", type, text),
               type == "int" ? "float(…) reads decimal fractions" : "a float is written 1.5 or 1e-3");
  }
  return type == "int" ? make_integer(integer) : Object{Constant{number}};
}

Object Lowering::derivative_of(const Object& function, const Object& argnums, bool has_value, const Object* checkpoints) {
  Derivative made{.function = std::make_shared<const Object>(function),
                  .by = {},
                  .is_single = integer_of(argnums).has_value(),
                  .has_value = has_value};
  const std::vector<Object> positions = made.is_single ? std::vector{argnums} : items_of(argnums);
  for (const Object& position : positions) {
    const auto number = integer_of(position);
    if (!number || *number < 0)
      emit_.fail(ErrorCode::InvalidArgument, fmt::format("argnums has {}", describe(position)),
                 "it is a position, or several");
    made.by.push_back(static_cast<size_t>(*number));
  }
  if (checkpoints && !checkpoints->is_none()) {
    const auto number = integer_of(*checkpoints);
    if (!number || *number < 1)
      emit_.fail(ErrorCode::InvalidArgument, fmt::format("checkpoints is {}", describe(*checkpoints)),
                 "it is a number that the compiler knows, 1 at least");
    made.checkpoints = *number;
  }
  return {std::move(made)};
}

namespace {

bool takes_keyword(std::string_view function, std::string_view keyword) {
  static constexpr std::pair<std::string_view, std::string_view> kKeywords[] = {
      {"anfora.grad", "argnums"},           {"anfora.grad", "checkpoints"}, {"anfora.value_and_grad", "argnums"},
      {"anfora.value_and_grad", "checkpoints"}, {"enumerate", "start"},
  };
  return function == "dict" || function == "print" || function.starts_with("collections.") || std::ranges::count(kKeywords, std::pair(function, keyword)) > 0;
}

}  // namespace

Object Lowering::call_builtin(const std::string& name, Arguments arguments) {
  if (name.starts_with("anfora.ops.")) return call_operator(name.substr(11), std::move(arguments));
  if (name.starts_with("collections.")) return make_collection(name.substr(12), std::move(arguments));
  for (const auto& [keyword, value] : arguments.named) {
    if (!takes_keyword(name, keyword))
      emit_.fail(ErrorCode::InvalidArgument, fmt::format("{}() has no argument '{}'", name, keyword),
                 "docs/language.md says what there is");
  }
  std::vector<Object>& given = arguments.positional;
  auto need = [&](size_t least, size_t most) {
    if (given.size() < least || given.size() > most) {
      emit_.fail(ErrorCode::InvalidArgument,
                 fmt::format("{}() takes {} argument{}, {} are given", name, most, most == 1 ? "" : "s", given.size()));
    }
  };
  auto keyword = [&](std::string_view key) -> const Object* {
    auto found =
        std::ranges::find(arguments.named, key, [](const auto& entry) { return std::string_view(entry.first); });
    return found == arguments.named.end() ? nullptr : &found->second;
  };
  auto iterable = [&](Iterable::Kind kind, std::vector<Object> parts) {
    return Object{Iterable{kind, std::make_shared<const Items>(Items{std::move(parts), {}})}};
  };
  if (name == "anfora.grad" || name == "anfora.value_and_grad") {
    need(1, 2);
    const Object* named = keyword("argnums");
    const Object argnums = named ? *named : given.size() > 1 ? given[1] : make_integer(0);
    return derivative_of(given[0], argnums, name == "anfora.value_and_grad", keyword("checkpoints"));
  }
  if (name == "anfora.stop_gradient") return need(1, 1), stop_gradient(given[0]);
  if (name == "anfora.custom_gradient") {
    need(1, 1);
    if (!given[0].closure()) {
      emit_.fail(ErrorCode::TypeMismatch, fmt::format("custom_gradient() of {}", describe(given[0])),
                 "it is of a function that is written here");
    }
    return {CustomGradient{std::make_shared<const Object>(given[0])}};
  }
  if (name == "anfora.tree_map") {
    need(2, SIZE_MAX);
    const std::vector<Object> trees(given.begin() + 1, given.end());
    return map_trees(trees, [&](std::span<const Object> leaves) {
      return call(given[0], {.positional = {leaves.begin(), leaves.end()}, .named = {}});
    });
  }
  if (name == "len") return need(1, 1), length(given[0]);
  if (name == "range") {
    need(1, 3);
    for (const Object& bound : given) {
      const DType dtype = Emitter::is_numeric(bound) ? emit_.dtype(bound) : DType::Undefined;
      if (!is_integer(dtype))
        emit_.fail(ErrorCode::TypeMismatch, fmt::format("range() takes integers, not {}", describe(bound)),
                   "numpy.arange() takes floats; int(…) converts");
    }
    for (Object& bound : given) {  // those of numpy count as Python's
      if (bound.is<Array>())
        bound = emit_.number(
            emit_.op("Reshape", {emit_.tensor(bound, DType::I64), emit_.integers(std::span<const int64_t>())}));
    }
    const Object start = given.size() > 1 ? given[0] : make_integer(0), stop = given.size() > 1 ? given[1] : given[0];
    const Object step = given.size() > 2 ? given[2] : make_integer(1);
    if (integer_of(step) == 0)
      emit_.fail(ErrorCode::InvalidArgument, "the step of range() is 0",
                 "it counts up by a positive one, down by a negative one");
    return iterable(Iterable::Kind::Range, {start, stop, step});
  }
  if (name == "zip") {
    need(0, SIZE_MAX);
    if (given.empty()) return make_tuple({});
    if (std::ranges::any_of(given, &Object::is<Generator>)) return call(*find_in_library("builtins", "zip_of"), std::move(arguments));
    return iterable(Iterable::Kind::Zip, given);
  }
  if (name == "iter") {
    need(1, 1);
    return given[0].is<Generator>() ? given[0] : call(*find_in_library("builtins", "iterate"), std::move(arguments));
  }
  if (name == "next") return need(1, 2), next(given);
  if (name == "enumerate") {
    need(1, 2);
    if (given[0].is<Generator>()) return call(*find_in_library("builtins", "enumerate_of"), std::move(arguments));
    const Object* start = keyword("start");
    return iterable(Iterable::Kind::Enumerate, {given[0], given.size() > 1 ? given[1]
                                                          : start          ? *start
                                                                           : make_integer(0)});
  }
  if (name == "reversed") return need(1, 1), iterable(Iterable::Kind::Reversed, {given[0]});
  if (name == "int" || name == "float" || name == "bool") {
    need(0, 1);
    if (given.empty())
      return name == "int" ? make_integer(0) : name == "float" ? Object{Constant{0.0}} : Object{Constant{false}};
    if (name == "bool") return truth(given[0]);
    if (auto text = text_of(given[0]); text && name != "bool") return number_of_text(name, *text);
    if (name == "int" && integer_of(given[0])) return make_integer(*integer_of(given[0]));
    if (const double* known = given[0].constant<double>(); known && name == "float") return given[0];
    if (auto text = text_of(given[0]); text && name == "float") return {Constant{std::stod(*text)}};  // "inf"
    Node* node = emit_.tensor(given[0], name == "int" ? DType::I64 : DType::F64);
    if (!node->type()->has_rank() || node->type()->rank() > 0)
      node = emit_.op("Reshape", {node, emit_.integers(std::span<const int64_t>())});
    return emit_.number(node);
  }
  if (name == "tuple") return need(0, 1), make_tuple(given.empty() ? std::vector<Object>() : items_of(given[0]));
  if (name == "list") {
    need(0, 1);
    const auto* cell = given.empty() ? nullptr : given[0].as<Cell>();
    if (cell && cell->kind == Cell::Kind::List) return make_cell(Cell::Kind::List, content(*cell));
    if (!given.empty() && given[0].is<Generator>()) return list_of(given[0]);
    const Object iterable = given.empty() ? make_tuple({}) : iterated(given[0]);
    const auto* array = iterable.as<Array>();
    const bool is_counted = iterable.is<Iterable>() || (array && !array->is_number && emit_.rank(array->node) > 0);
    if (is_counted && !integer_of(length(iterable)))
      return list_of(given[0]);
    return new_list(given.empty() ? std::vector<Object>() : items_of(given[0]));
  }
  if (name == "dict") {
    need(0, 1);
    const Object dict = new_dict({});
    update_dict(dict, arguments);
    return dict;
  }
  if (name == "set" || name == "frozenset") {
    need(0, 1);
    const SetObject* set = given.empty() ? nullptr : set_of(given[0]);
    const Object items = set ? Object{*set} : make_set(given.empty() ? std::vector<Object>() : items_of(given[0]));
    return name == "set" ? make_cell(Cell::Kind::Set, items) : items;
  }
  if (name == "type") return need(1, 1), type_of(given[0]);
  if (name == "isinstance") return need(2, 2), Object{Constant{is_instance(given[0], given[1])}};
  if (name == "print") return print(arguments), Object{Constant{NoneValue()}};
  if (name == "str" && given.size() == 1 && given[0].is<Constant>()) return make_text(str(*given[0].as<Constant>()));
  if (name == "getattr" && given.size() == 2 && text_of(given[1])) return attribute(given[0], *text_of(given[1]));
  if (name == "slice") {
    need(1, 3);
    const Object none{Constant{NoneValue()}};
    Items parts{{given.size() > 1 ? given[0] : none, given.size() > 1 ? given[1] : given[0],
                 given.size() > 2 ? given[2] : none},
                {}};
    return {SliceObject{std::make_shared<const Items>(std::move(parts))}};
  }
  if (name == "anfora.promote") {
    DType common = DType::Undefined;
    bool has_tensor = false;
    for (Object& object : given) {
      object = as_array(object);
      if (Emitter::is_number(object)) continue;
      common = has_tensor ? python::promoted(common, emit_.dtype(object)) : emit_.dtype(object);
      has_tensor = true;
    }
    std::optional<Object> tensor;
    for (const Object& object : given) {
      if (!Emitter::is_number(object)) tensor = object;
    }
    for (const Object& object : given) {
      if (!Emitter::is_number(object)) continue;
      const DType own = emit_.dtype(object);
      common = !has_tensor ? (common == DType::Undefined ? own : python::promoted(common, own)) : common;
      if (has_tensor && emit_.promoted(object, *tensor) != emit_.dtype(*tensor))
        common = python::promoted(common, emit_.promoted(object, *tensor));
    }
    std::vector<Object> items;
    for (const Object& object : given) items.push_back({Array{emit_.tensor(object, common), !has_tensor}});
    return make_tuple(std::move(items));
  }
  if (name == "anfora.as_float") {
    need(1, 1);
    const Object object = as_array(given[0]);
    const DType dtype = emit_.dtype(object);
    if (is_float(dtype) || is_complex(dtype)) return object;
    const bool small = !Emitter::is_number(object) && dtype != DType::Bool && element_bits(dtype) <= 16;
    const DType wide = dtype != DType::Bool && !small                      ? DType::F64
                       : dtype != DType::Bool && element_bits(dtype) == 16 ? DType::F32
                       : Emitter::is_number(object)                        ? DType::F64
                                                                           : DType::F16;
    return {Array{emit_.tensor(object, wide), Emitter::is_number(object)}};
  }
  if (name == "anfora.cast") {
    need(2, 2);
    return {Array{emit_.tensor(as_array(given[0]), dtype_of(given[1]))}};
  }
  if (name == "anfora.as_tensor") return need(1, 1), Object{Array{emit_.tensor(as_array(given[0]))}};
  if (name == "anfora.is_known") return need(1, 1), Object{Constant{is_known(given[0])}};
  if (name == "anfora.unordered") {  // what is computed of all items, in any order
    need(1, 1);
    const SetObject* set = set_of(given[0]);
    const auto* cell = given[0].as<Cell>();
    const bool is_dict = cell && cell->kind == Cell::Kind::Dict;
    return set ? make_tuple(distinct_items(*set)) : is_dict ? iterated(given[0]) : given[0];
  }
  if (name == "anfora.is_generator") return need(1, 1), Object{Constant{given[0].is<Generator>()}};
  if (name == "anfora.is_number") return need(1, 1), Object{Constant{Emitter::is_number(given[0])}};
  if (name == "anfora.shape_of") return need(1, 1), Object{Array{emit_.vector(shape_numbers(given[0]))}};
  if (name == "anfora.fail") {
    emit_.fail(ErrorCode::Unsupported, text_of(given.at(0)).value_or("this is not supported"),
               "docs/language.md says what is, and anfora.ops has each operator");
  }
  emit_.fail(ErrorCode::Unsupported, fmt::format("{} cannot be called in a compiled function", name),
             "call it before, and pass what it gives");
}

DType Lowering::dtype_of(const Object& object) {
  if (const auto* type = object.as<DTypeObject>()) return type->dtype;
  if (const auto* builtin = object.as<Builtin>()) {
    if (builtin->name == "float") return DType::F64;
    if (builtin->name == "int") return DType::I64;
    if (builtin->name == "bool") return DType::Bool;
  }
  if (auto text = text_of(object)) {
    static const std::map<std::string, std::string> kOther = {{"bool", "bool_"}, {"int", "int64"}, {"float", "float64"}, {"complex", "complex128"}};
    const auto other = kOther.find(*text);
    if (auto found = find_in_module("numpy", other == kOther.end() ? *text : other->second); found && found->is<DTypeObject>())
      return found->as<DTypeObject>()->dtype;
  }
  emit_.fail(ErrorCode::TypeMismatch, fmt::format("{} is no element type", describe(object)),
             "numpy.float32, bool, int, float, or a name such as \"int64\"");
}

// A shape as the caller gives it: one size, or several.
std::vector<Object> Lowering::shape_numbers(const Object& object) {
  if (Emitter::is_number(object)) return {object};
  return items_of(object);
}

}  // namespace anfora::python
