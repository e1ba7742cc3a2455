// Methods of classes by which operators, comparisons and functions that Python brings along take instances: __add__, __lt__, __len__.
#include <fmt/format.h>

#include <algorithm>

#include "anfora/error.h"
#include "frontend/python/lower/builtins.h"
#include "frontend/python/lower/lowering.h"

namespace anfora::python {

namespace {

struct Operator {
  Kind kind;
  std::string_view name, reflected;
};
constexpr Operator kMethodsOfOperators[] = {
    {Kind::Add, "add", "radd"},       {Kind::Sub, "sub", "rsub"},       {Kind::Mult, "mul", "rmul"},   {Kind::MatMult, "matmul", "rmatmul"},
    {Kind::Div, "truediv", "rtruediv"}, {Kind::FloorDiv, "floordiv", "rfloordiv"}, {Kind::Mod, "mod", "rmod"}, {Kind::Pow, "pow", "rpow"},
    {Kind::LShift, "lshift", "rlshift"}, {Kind::RShift, "rshift", "rrshift"}, {Kind::BitAnd, "and", "rand"}, {Kind::BitOr, "or", "ror"},
    {Kind::BitXor, "xor", "rxor"},    {Kind::Eq, "eq", "eq"},           {Kind::NotEq, "ne", "ne"},     {Kind::Lt, "lt", "gt"},
    {Kind::Gt, "gt", "lt"},           {Kind::LtE, "le", "ge"},          {Kind::GtE, "ge", "le"},       {Kind::USub, "neg", ""},
    {Kind::UAdd, "pos", ""},          {Kind::Invert, "invert", ""},
};
const Operator& operator_of(Kind kind) { return *std::ranges::find(kMethodsOfOperators, kind, &Operator::kind); }
std::string method_name(std::string_view name) { return fmt::format("__{}__", name); }

constexpr const char* kNotImplemented = "NotImplemented";
bool is_not_implemented(const Object& object) { return object.is<Builtin>() && object.as<Builtin>()->name == kNotImplemented; }

// An instance that no operator takes by itself, as it does tuples with names.
bool is_opaque(const Object& object) { return object.instance() || (object.live() && object.live()->type()); }

}  // namespace

// By the methods of two operands, in CPython's order; empty: neither has one that takes the other.
std::optional<Object> Lowering::by_methods(Kind op, const Object& left, const Object& right) {
  const std::shared_ptr<const Live> left_class = written_class(left), right_class = written_class(right);
  if (!left_class && !right_class) return std::nullopt;
  const Operator& names = operator_of(op);
  const bool is_same_class = left_class && right_class && left_class->identity() == right_class->identity();
  const bool is_comparison = op == Kind::Eq || op == Kind::NotEq || op == Kind::Lt || op == Kind::LtE || op == Kind::Gt || op == Kind::GtE;
  auto attempt = [&](const Object& self, std::string_view name, const Object& other) -> std::optional<Object> {
    const auto method = special(self, method_name(name));
    if (!method) return std::nullopt;
    Object result = call(*method, {.positional = {other}, .named = {}});
    return is_not_implemented(result) ? std::nullopt : std::optional(std::move(result));
  };
  auto own = [&] { return attempt(left, names.name, right); };
  auto reflected = [&] { return is_same_class && !is_comparison ? std::nullopt : attempt(right, names.reflected, left); };
  const auto* array = left.as<Array>();
  if (array && right_class && !Emitter::is_number(left) && special(right, method_name(names.reflected))) {
    const bool is_sequence = special(right, "__getitem__") || !array->node->type()->has_rank() || array->node->type()->rank() > 0;
    if (is_sequence) {
      emit_.fail(ErrorCode::Unsupported, fmt::format("{} {} {}: numpy would go over the elements", describe(left), symbol_of(op), describe(right)),
                 fmt::format("write the {} first", describe(right)));
    }
  }
  const bool is_derived = left_class && right_class && !is_same_class && right_class->is_a(*left_class);
  std::optional<Object> result = is_derived ? reflected() : own();
  if (!result) result = is_derived ? own() : reflected();
  if (!result && op == Kind::NotEq) {
    if (auto equal = by_methods(Kind::Eq, left, right)) result = emit_.unary(Kind::Not, truth(*equal));
  }
  if (result || (!is_opaque(left) && !is_opaque(right))) return result;
  if (!left.instance() && !right.instance()) return std::nullopt;
  if (op == Kind::Eq) return compare(Kind::Is, left, right);
  emit_.fail(ErrorCode::TypeMismatch, fmt::format("{} {} {} is not defined", describe(left), symbol_of(op), describe(right)),
             fmt::format("define {}, or {}", method_name(names.name), method_name(names.reflected)));
}

std::optional<Object> Lowering::in_place_by_method(Kind op, const Object& target, const Object& value) {
  const auto method = special(target, method_name(fmt::format("i{}", operator_of(op).name)));
  if (!method) return std::nullopt;
  Object result = call(*method, {.positional = {value}, .named = {}});
  return is_not_implemented(result) ? std::nullopt : std::optional(std::move(result));
}

std::optional<Object> Lowering::unary_by_method(Kind op, const Object& operand) {
  if (!written_class(operand)) return std::nullopt;
  return require_special(operand, method_name(operator_of(op).name), {}, symbol_of(op));
}

// A call of a method that an instance must have; empty: it is none, or one with a meaning of its own.
std::optional<Object> Lowering::require_special(const Object& object, const std::string& name, std::vector<Object> arguments, std::string_view what) {
  if (const auto method = special(object, name)) return call(*method, {.positional = std::move(arguments), .named = {}});
  if (!object.instance()) return std::nullopt;
  emit_.fail(ErrorCode::TypeMismatch, fmt::format("{} of {} is not defined", what, describe(object)), fmt::format("define {} in its class", name));
}

// What functions of Python's own make of an instance by a method of its class.
std::optional<Object> Lowering::builtin_by_method(const std::string& name, const Arguments& arguments) {
  static constexpr std::string_view kByMethod[] = {"abs", "round", "int", "float", "repr", "hash", "divmod", "reversed", "len", "next"};
  if (arguments.positional.empty() || !written_class(arguments.positional[0])) return std::nullopt;
  const Object& object = arguments.positional[0];
  if (name == "str") {
    if (auto text = text_of_instance(object)) return text;
  }
  if (!std::ranges::count(kByMethod, name)) return std::nullopt;
  return require_special(object, method_name(name), {arguments.positional.begin() + 1, arguments.positional.end()}, name + "()");
}

std::optional<Object> Lowering::text_of_instance(const Object& object) {
  for (const char* name : {"__str__", "__repr__"}) {
    if (const auto method = special(object, name)) return call(*method, {});
  }
  return std::nullopt;
}

// What a `for` goes over in the place of an instance.
std::optional<Object> Lowering::iterator_of(const Object& object) {
  if (!written_class(object)) return std::nullopt;
  std::optional<Object> items = require_special(object, "__iter__", {}, "going over the items");
  if (items && items->instance()) {
    emit_.fail(ErrorCode::Unsupported, fmt::format("{} has a __next__ of its own, which is not supported", describe(*items)),
               "write __iter__ with yield, or return iter(…) of a list");
  }
  return items;
}

}  // namespace anfora::python
