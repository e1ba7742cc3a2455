#include "frontend/python/lower/object.h"

#include <fmt/format.h>

#include <array>

#include "anfora/error.h"

namespace anfora::python {

Object make_tuple(std::vector<Object> items, std::vector<std::string> names, std::shared_ptr<const Live> type) {
  return {std::make_shared<const Items>(Items{std::move(items), std::move(names), std::move(type)})};
}
Object make_integer(int64_t value) { return {Constant{Integer(value)}}; }
Object make_text(std::string_view utf8) { return {Constant{code_points(utf8)}}; }

Object make_constant(const Constant& constant) {
  if (!constant.is<Tuple>()) return {constant};
  std::vector<Object> items;
  for (const Constant& item : constant.as<Tuple>().items) items.push_back(make_constant(item));
  return make_tuple(std::move(items));
}

std::optional<std::string> text_of(const Object& object) {
  const auto* text = object.constant<std::u32string>();
  return text ? std::optional(utf8(*text)) : std::nullopt;
}

bool is_text(const Object& object) {
  const auto* array = object.as<Array>();
  const ir::Type* type = array ? array->node->type() : nullptr;
  return text_of(object) || (type && type->is_tensor() && type->dtype() == DType::String && type->has_rank() && type->rank() == 0);
}

std::optional<int64_t> integer_of(const Object& object) {
  if (const bool* truth = object.constant<bool>()) return *truth;
  const Integer* integer = object.constant<Integer>();
  if (!integer || *integer < INT64_MIN || *integer > INT64_MAX) return std::nullopt;
  return static_cast<int64_t>(*integer);
}

const Closure* written_function(const Object& object) {
  if (const auto* custom = object.as<CustomGradient>()) return written_function(*custom->function);
  if (const auto* derivative = object.as<Derivative>()) return written_function(*derivative->function);
  return object.closure();
}

bool is_function(const Object& object) {
  return object.closure() || object.choice() || object.is<Builtin>() || object.is<Method>() || object.is<Derivative>() ||
         object.is<CustomGradient>();
}

// Whether a run decides nothing of it.
bool is_known(const Object& object) {
  if (const Items* tuple = object.tuple()) return std::ranges::all_of(tuple->items, is_known);
  return !object.is<Array>();
}

bool is_known_number(const Object& object) {
  return object.constant<bool>() || object.constant<Integer>() || object.constant<double>();
}

namespace {

std::string_view type_name(const Constant& constant) {
  static constexpr std::array<std::string_view, 10> kKinds = {"None", "bool",  "int",      "float", "complex",
                                                              "str",  "bytes", "Ellipsis", "tuple", "frozenset"};
  return kKinds[constant.value.index()];
}

}  // namespace

const void* class_of(const Items& items) { return !items.type || items.type->is_a("tuple") ? nullptr : items.type->identity(); }

std::optional<Member> Live::member(const std::string&, const Live*) const { return std::nullopt; }
void Live::require_instances() const {
  throw Error(ErrorCode::Unsupported, fmt::format("{} cannot be called in a compiled function", describe()))
      .with_hint("functions, and classes that are written in Python, can");
}

std::shared_ptr<const Live> written_class(const Object& object) {
  if (const Cell* instance = object.instance()) return instance->type;
  if (const Items* tuple = object.tuple()) return tuple->type;
  return object.live() ? object.live()->type() : nullptr;
}

const Object* find_attribute(const Items& attributes, std::string_view name) {
  const auto found = std::ranges::find(attributes.names, name);
  return found == attributes.names.end() ? nullptr : &attributes.items[static_cast<size_t>(found - attributes.names.begin())];
}

namespace {
constexpr std::string_view kNoValue = "no value";
}
Object no_value() { return {Builtin{std::string(kNoValue)}}; }
bool is_no_value(const Object& object) { return object.is<Builtin>() && object.as<Builtin>()->name == kNoValue; }

std::string describe(const Object& object) {
  if (const auto* constant = object.as<Constant>()) return std::string(type_name(*constant));
  if (const auto* array = object.as<Array>()) {
    if (!array->is_number || !array->node->type()->is_tensor()) return to_string(array->node->type());
    const DType dtype = array->node->type()->dtype();
    return dtype == DType::F64 ? "float" : dtype == DType::Bool ? "bool" : "int";
  }
  if (const Items* tuple = object.tuple())
    return tuple->type ? tuple->type->describe() : fmt::format("tuple of {}", tuple->items.size());
  if (const Live* live = object.live()) return live->describe();
  if (const Cell* instance = object.instance()) return instance->type->describe();
  if (object.is<Super>()) return "super()";
  if (const auto* cell = object.as<Cell>()) {
    return cell->kind == Cell::Kind::Dict ? "dict" : cell->kind == Cell::Kind::Set ? "set" : "list";
  }
  if (object.is<SliceObject>()) return "slice";
  if (object.is<SetObject>()) return "set";
  if (object.is<Generator>()) return "generator";
  if (const Suspended* suspended = object.suspended())
    return fmt::format("a generator of {}", suspended->closure->function->text("name"));
  if (const auto* iterable = object.as<Iterable>()) {
    static constexpr std::array<std::string_view, 4> kKinds = {"range", "zip", "enumerate", "reversed"};
    return std::string(kKinds[static_cast<size_t>(iterable->kind)]);
  }
  if (const Closure* closure = object.closure()) {
    return closure->function->is(Kind::Lambda) ? "a lambda"
                                               : fmt::format("function {}", closure->function->text("name"));
  }
  if (object.choice()) return "a function that a run chooses";
  if (const auto* builtin = object.as<Builtin>()) return builtin->name;
  if (const auto* derivative = object.as<Derivative>()) return "the gradient of " + describe(*derivative->function);
  if (const auto* custom = object.as<CustomGradient>()) return describe(*custom->function);
  if (const auto* method = object.as<Method>())
    return fmt::format("method {} of {}", method->name, describe(*method->self));
  return fmt::format("dtype {}", name(object.as<DTypeObject>()->dtype));
}

}  // namespace anfora::python
