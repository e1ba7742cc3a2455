// Functions that Python brings along.
#include "frontend/python/lower/builtins.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "anfora/error.h"
#include "frontend/python/lower/lowering.h"

namespace anfora::python {

using ir::Node;

Object Lowering::length(const Object& object) {
  if (written_class(object)) {
    if (auto size = require_special(object, "__len__", {}, "len()")) return *size;
  }
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

// Of a value that is an instance of one of Python's own types, or numpy's, that type: "int", "numpy.ndarray"; else "".
std::string Lowering::builtin_type_of(const Object& object) const {
  if (const auto* array = object.as<Array>(); array && !array->is_number && array->node->type()->is_tensor()) {
    const ir::Type* type = array->node->type();
    return type->dtype() == DType::String && type->has_rank() && type->rank() == 0 ? "str" : "numpy.ndarray";
  }
  if (const auto* cell = object.as<Cell>()) {
    if (auto collection = collections_.find(cell->id); collection != collections_.end()) return "collections." + collection->second.type;
  }
  if (written_class(object)) return "";
  if (object.tuple()) return "tuple";
  static constexpr std::string_view kTypes[] = {"bool", "int", "float", "complex", "str", "bytes", "list", "dict", "set", "range", "slice"};
  std::string kind = object.is<Array>() && !Emitter::is_number(object) ? "list" : describe(object);
  return std::ranges::count(kTypes, kind) ? kind : "";
}

bool Lowering::is_instance(const Object& object, const Object& type) const {
  if (const Items* any = type.tuple()) {
    return std::ranges::any_of(any->items, [&](const Object& one) { return is_instance(object, one); });
  }
  if (const auto* dtype = type.as<DTypeObject>()) {
    const auto* array = object.as<Array>();
    return array && !array->is_number && array->node->type()->dtype() == dtype->dtype &&
           array->node->type()->has_rank() && array->node->type()->rank() == 0;
  }
  const std::shared_ptr<const Live> instance_of = written_class(object);
  const Live* own = instance_of ? instance_of.get() : object.live();
  const std::string kind = own ? "" : builtin_type_of(object);
  if (const auto* exception = dynamic_cast<const ProgramClass*>(type.live()); exception && exception->is_python())
    return own && own->is_a(exception->describe());
  if (const Live* live = type.live()) return own ? own->is_a(*live) : !kind.empty() && live->is_base_of(kind);
  const auto* builtin = type.as<Builtin>();
  if (!builtin) return false;
  const std::string& name = builtin->name;
  if (name == "object") return true;
  if (own) return own->is_a(name);
  if (name == "set" || name == "frozenset") return object.is<SetObject>() || kind == name;
  if (name == "int") return kind == "int" || kind == "bool";
  const bool is_dict = kind.starts_with("collections.") && kind != "collections.deque";
  return kind == name || (name == "dict" && is_dict);
}

Object Lowering::type_of(const Object& object) {
  if (const auto type = written_class(object)) return {type};
  if (object.is<SetObject>()) return {Builtin{"set"}};
  if (object.tuple()) return {Builtin{"tuple"}};
  const std::string kind = builtin_type_of(object);
  const bool is_scalar = kind == "numpy.ndarray" && emit_.rank(object.as<Array>()->node) == 0;
  if (!kind.empty() && !is_scalar) return {Builtin{kind}};
  emit_.fail(ErrorCode::Unsupported, fmt::format("type() of {} is not supported", describe(object)), "isinstance(x, …) asks for a type");
}

void Lowering::print(const Arguments& arguments) {
  if (!arguments.named.empty()) {
    emit_.fail(ErrorCode::Unsupported, fmt::format("print() with {}= is not supported", arguments.named[0].first),
               "a compiled function prints lines to standard output");
  }
  std::string text;
  auto add = [&](const std::string& more) { text += (text.empty() ? "" : " ") + more; };
  for (const Object& given : arguments.positional) {
    const Object argument = text_of_instance(given).value_or(given);
    if (argument.instance())
      emit_.fail(ErrorCode::Unsupported, fmt::format("print() of {}, which has no __str__", describe(argument)), "print its attributes");
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
  if (name == "contextlib.nullcontext" || name == "numpy.errstate") return make_context(name, arguments);
  if (name.starts_with("collections.")) return make_collection(name.substr(12), std::move(arguments));
  for (const auto& [keyword, value] : arguments.named) {
    if (!takes_keyword(name, keyword))
      emit_.fail(ErrorCode::InvalidArgument, fmt::format("{}() has no argument '{}'", name, keyword),
                 "docs/language.md says what there is");
  }
  if (name == "super") return super(arguments.positional);
  if (auto result = builtin_by_method(name, arguments)) return *result;
  std::vector<Object>& given = arguments.positional;
  static constexpr std::string_view kIterating[] = {"zip", "enumerate", "list", "tuple", "iter", "set", "frozenset", "anfora.unordered"};
  for (Object& object : given) {
    const auto items = std::ranges::count(kIterating, name) ? iterator_of(object) : std::nullopt;
    if (items) object = *items;
  }
  auto need = [&](size_t least, size_t most) {
    if (given.size() < least || given.size() > most) {
      emit_.fail(ErrorCode::InvalidArgument,
                 fmt::format("{}() takes {} argument{}, {} are given", name, most, most == 1 ? "" : "s", given.size()),
               "others that CPython takes are not supported");
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
    if (std::ranges::any_of(given, &Object::is<Generator>)) return call(*find_in_library("builtins", "_zip_of"), std::move(arguments));
    return iterable(Iterable::Kind::Zip, given);
  }
  if (name == "iter") {
    need(1, 1);
    return given[0].is<Generator>() ? given[0] : call(*find_in_library("builtins", "_iterate"), std::move(arguments));
  }
  if (name == "next") return need(1, 2), next(given);
  if (name == "enumerate") {
    need(1, 2);
    if (given[0].is<Generator>()) return call(*find_in_library("builtins", "_enumerate_of"), std::move(arguments));
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
    if (name == "int" && Emitter::is_numeric(given[0]) && is_float(emit_.dtype(given[0]))) {  // of a NaN, an infinity
      require_uncaught("ValueError");
      require_uncaught("OverflowError");
    }
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
  if (name == "str" && given.size() == 1 && is_text(given[0])) return given[0];
  if (name == "str" && given.size() == 1 && given[0].is<Constant>()) return make_text(str(*given[0].as<Constant>()));
  const std::string attribute_name = given.size() > 1 ? text_of(given[1]).value_or("") : "";
  if (name == "getattr" && given.size() == 2 && !attribute_name.empty()) return attribute(given[0], attribute_name);
  if ((name == "getattr" || name == "hasattr") && !attribute_name.empty() && written_class(given[0])) {
    need(2, name == "getattr" ? 3 : 2);
    const Live* live = given[0].live();
    const auto found = live ? live->attribute(attribute_name) : find_attribute_of(given[0], attribute_name);
    return name == "hasattr" ? Object{Constant{found.has_value()}} : found.value_or(given.back());
  }
  if (name == "setattr" && !attribute_name.empty()) {
    need(3, 3);
    set_attribute(given[0], attribute_name, given[2]);
    return {Constant{NoneValue()}};
  }
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
