#include "frontend/python/lower/emit.h"

#include <fmt/format.h>

#include <algorithm>

#include "anfora/error.h"
#include "frontend/python/operators.h"
#include "kernels/reference/cast.h"

namespace anfora::python {

using ir::Node;
using ir::Type;

void Emitter::set_place(Place place) {
  if (!place.shown_tree) {
    const bool stays = place.source->is_library && place_.shown_tree;
    place.shown_source = stays ? place_.shown_source : place.source;
    place.shown_tree = stays ? place_.shown_tree : place.tree;
  }
  place_ = place;
}

void Emitter::fail(ErrorCode code, std::string_view message, std::string_view hint) const {
  Error error = place_.shown_source->error(code, *place_.shown_tree, message);
  if (!hint.empty()) error.with_hint(std::string(hint));
  throw error;
}

const ir::Location* Emitter::location() {
  if (located_ != place_.shown_tree) {
    located_ = place_.shown_tree;
    location_ = module_.location(
        {.file = place_.shown_source->file, .line = located_->position.line, .column = located_->position.column});
  }
  return location_;
}

Node* Emitter::apply(std::string_view op, std::span<Node* const> inputs, const AttributeSet& attributes,
                     size_t num_outputs) {
  ir::Apply* node =
      module_.apply(graph_, module_.context().get_operator(op), inputs, attributes, num_outputs, location());
  if (assumptions_) assumptions_->consider(*node);
  try {
    inference_.infer(*node);
  } catch (const Error& error) {
    std::string hint(error.hint());
    if (hint.empty()) {  // what the operands are, and where they come from
      for (const Node* input : inputs) {
        if (!input->type() || (input->as_value() && input->as_value()->is_none())) continue;
        const ir::Location* at = input->location();
        hint += fmt::format("{}{}{}", hint.empty() ? "the operands are " : ", ", to_string(input->type()),
                            at && at->line > 0 ? fmt::format(" (line {})", at->line) : "");
      }
    }
    fail(error.code(), fmt::format("{}: {}", op, error.message()), hint);
  }
  return node;
}

Node* Emitter::op(std::string_view op, std::initializer_list<Node*> inputs,
                  std::initializer_list<ir::NamedAttribute> attributes, size_t num_outputs) {
  std::vector<AttributeSet::Entry> entries;
  for (const ir::NamedAttribute& attribute : attributes) entries.push_back(attribute.entry);
  return apply(op, std::span(inputs.begin(), inputs.size()), AttributeSet(std::move(entries)), num_outputs);
}

Node* Emitter::item(Node* tuple, size_t index) {
  Node* item = module_.tuple_item(graph_, tuple, index);
  if (!item->type()) item->set_type(tuple->type()->element(index));
  return item;
}

Node* Emitter::integers(std::span<const int64_t> values) { return module_.constant(Tensor::vector<int64_t>(values)); }

namespace {

std::string described(const Integer& value) {
  constexpr size_t kMostShown = 40;
  const std::string digits = value.str();
  return digits.size() <= kMostShown ? "the integer " + digits : fmt::format("an integer of {} digits", digits.size());
}

}  // namespace

Node* Emitter::constant(const Constant& number, DType dtype) {
  Tensor wide;
  if (number.is<Integer>()) {
    const Integer& value = number.as<Integer>();
    const bool is_float_type = is_float(dtype);
    auto as_float = to_double(value);
    const bool is_unsigned = dtype == DType::U64 && value >= 0 && value <= UINT64_MAX;
    if (is_float_type && as_float) {
      wide = Tensor::scalar(*as_float);
    } else if (is_unsigned) {
      wide = Tensor::scalar(static_cast<uint64_t>(value));
    } else if (is_float_type || value < INT64_MIN || value > INT64_MAX) {
      fail(ErrorCode::InvalidArgument, fmt::format("{} does not fit {}", described(value), name(dtype)),
           "integers in tensors have at most 64 bits");
    } else {
      wide = Tensor::scalar(static_cast<int64_t>(value));
      const int bits = element_bits(dtype);
      const bool is_signed = dtype == DType::I8 || dtype == DType::I16 || dtype == DType::I32;
      const bool is_small_unsigned =
          dtype == DType::U8 || dtype == DType::U16 || dtype == DType::U32 || dtype == DType::U64;
      const Integer low = is_signed ? Integer(-(Integer(1) << (bits - 1))) : Integer(0);
      const Integer high = (Integer(1) << (is_signed ? bits - 1 : bits)) - 1;
      if ((is_signed || is_small_unsigned) && (value < low || value > high)) {
        fail(ErrorCode::InvalidArgument, fmt::format("{} does not fit {}", described(value), name(dtype)),
             fmt::format("{} holds {} to {}", name(dtype), low.str(), high.str()));
      }
    }
  } else {
    wide = number.is<bool>() ? Tensor::scalar(number.as<bool>()) : Tensor::scalar(number.as<double>());
  }
  return module_.constant(kernels::cast_tensor(wide, dtype).clone());
}

Node* Emitter::cast(Node* node, DType dtype) {
  if (node->type()->dtype() == dtype) return node;
  if (const Tensor* known = constant_tensor(node); known && known->size() == 1)
    return module_.constant(kernels::cast_tensor(*known, dtype).clone());
  return op("Cast", {node}, {{"to", static_cast<int>(dtype)}});
}

DType Emitter::dtype(const Object& object) const {
  if (const auto* array = object.as<Array>())
    return array->node->type()->is_tensor() ? array->node->type()->dtype() : DType::Undefined;
  return object.constant<bool>() ? DType::Bool : object.constant<double>() ? DType::F64 : DType::I64;
}

Node* Emitter::tensor(const Object& object) {
  if (const auto* array = object.as<Array>()) {
    if (!array->node->type()->is_tensor())
      fail(ErrorCode::TypeMismatch, fmt::format("{} is no tensor", to_string(array->node->type())),
           "numpy.array(…) or numpy.stack(…) makes one of a list");
    return array->node;
  }
  if (is_known_number(object)) return constant(*object.as<Constant>(), dtype(object));
  if (auto text = text_of(object)) return module_.constant(Tensor::scalar(*text));
  if (const Items* tuple = object.tuple()) {
    if (tuple->items.empty()) return module_.constant(Tensor::zeros(DType::F64, Shape{0}));
    if (std::ranges::all_of(tuple->items, [&](const Object& item) { return is_known_number(item) && dtype(item) == DType::I64; }))
      return vector(tuple->items);
    std::vector<Node*> rows;
    DType common = DType::Undefined;
    bool are_numbers = true;
    for (const Object& item : tuple->items) {
      rows.push_back(tensor(item));
      const DType dtype = rows.back()->type()->dtype();
      common = common == DType::Undefined ? dtype : python::promoted(common, dtype);
      are_numbers = are_numbers && is_known_number(item);
    }
    for (Node*& row : rows) row = op("Unsqueeze", {cast(row, common), integers({0})});
    return apply("Concat", rows, {{"axis", int64_t{0}}});
  }
  fail(ErrorCode::TypeMismatch, fmt::format("{} is no tensor", describe(object)),
       "a number, a tensor, or a list of them is wanted here");
}

Node* Emitter::tensor(const Object& object, DType dtype) {
  return is_known_number(object) ? constant(*object.as<Constant>(), dtype) : cast(tensor(object), dtype);
}

// Numbers ------------------------------------------------------------------------------------------------------------

namespace {

DType integer_of_bits(int bits, bool is_signed) {
  if (bits <= 8) return is_signed ? DType::I8 : DType::U8;
  if (bits <= 16) return is_signed ? DType::I16 : DType::U16;
  if (bits <= 32) return is_signed ? DType::I32 : DType::U32;
  return is_signed ? DType::I64 : DType::U64;
}
// bool, then integers, floats, complex numbers: a number takes the element type of a tensor of its kind or a higher one.
int level(DType dtype) { return dtype == DType::Bool ? 0 : is_integer(dtype) ? 1 : is_complex(dtype) ? 3 : 2; }

}  // namespace

DType promoted(DType a, DType b) {
  if (a == b) return a;
  if (level(a) > level(b)) std::swap(a, b);
  const int bits_a = element_bits(a), bits_b = element_bits(b);
  if (level(a) == 0) return b;
  if (is_complex(b))
    return b == DType::C128 || bits_a > 32 || (level(a) == 1 && bits_a > 16) ? DType::C128 : DType::C64;
  if (level(b) == 1) {
    const bool signed_a = is_signed_integer(a), signed_b = is_signed_integer(b);
    if (signed_a == signed_b) return bits_a > bits_b ? a : b;
    const int signed_bits = signed_a ? bits_a : bits_b, unsigned_bits = signed_a ? bits_b : bits_a;
    if (signed_bits > unsigned_bits) return integer_of_bits(signed_bits, true);
    return unsigned_bits == 64 ? DType::F64 : integer_of_bits(2 * unsigned_bits, true);
  }
  const bool half_a = bits_a <= 16, half_b = bits_b <= 16;
  if (level(a) == 1) {  // a float that holds the integer
    if (bits_a <= 8) return b;
    if (bits_a <= 16) return half_b ? DType::F32 : b;
    return DType::F64;
  }
  if (half_a && half_b) return DType::F32;  // f16 and bf16
  return bits_a > bits_b ? a : b;
}

DType Emitter::promoted(const Object& a, const Object& b) const {
  const DType dtype_a = dtype(a), dtype_b = dtype(b);
  const bool weak_a = is_number(a), weak_b = is_number(b);
  if (weak_a == weak_b) return python::promoted(dtype_a, dtype_b);
  const DType number = weak_a ? dtype_a : dtype_b, tensor = weak_a ? dtype_b : dtype_a;
  return level(number) > level(tensor) ? number : tensor;
}

namespace {

std::string_view arithmetic_operator(Kind op) {
  switch (op) {
    case Kind::Add: return "Add";
    case Kind::Sub: return "Sub";
    case Kind::Mult: return "Mul";
    case Kind::BitAnd: return "BitwiseAnd";
    case Kind::BitOr: return "BitwiseOr";
    case Kind::BitXor: return "BitwiseXor";
    default: return "";
  }
}
std::string_view logical_operator(Kind op) {
  switch (op) {
    case Kind::Add:
    case Kind::BitOr: return "Or";
    case Kind::Mult:
    case Kind::BitAnd: return "And";
    case Kind::BitXor: return "Xor";
    default: return "";
  }
}

}  // namespace

// The sign of the result is that of the divisor, as in Python and numpy.
Node* Emitter::remainder(Node* a, Node* b) {
  const DType dtype = a->type()->dtype();
  if (is_integer(dtype)) return op("Mod", {a, b});
  Node* rest = op("Mod", {a, b}, {{"fmod", 1}});  // has the sign of a
  return op("Where", {is_of_other_sign(rest, b), op("Add", {rest, b}), rest});
}

// Of floats: whether a division by b that leaves this rounds up where it rounds toward zero.
Node* Emitter::is_of_other_sign(Node* rest, Node* b) {
  Node* zero = constant({0.0}, b->type()->dtype());
  Node* differs = op("Xor", {op("Less", {rest, zero}), op("Less", {b, zero})});
  return op("And", {differs, op("Not", {op("Equal", {rest, zero})})});
}

Node* Emitter::floor_divide(Node* a, Node* b) {
  const DType dtype = a->type()->dtype();
  if (is_integer(dtype) && !is_unsigned_integer(dtype) && dtype != DType::I64)  // a - a % b may have one bit more
    return cast(floor_divide(cast(a, DType::I64), cast(b, DType::I64)), dtype);
  if (is_integer(dtype)) return op("Div", {op("Sub", {a, op("Mod", {a, b})}), b});
  Node *zero = constant({0.0}, dtype), *one = constant({1.0}, dtype);
  Node* rest = op("Mod", {a, b}, {{"fmod", 1}});
  Node* toward_zero = op("Round", {op("Div", {op("Sub", {a, rest}), b})});
  Node* floor = op("Where", {is_of_other_sign(rest, b), op("Sub", {toward_zero, one}), toward_zero});
  return op("Where", {op("Equal", {b, zero}), op("Div", {a, b}), floor});
}

// As a division by a power of two: by 2⁶² at most, and what is left of that by 2, which any other bit changes no more.
Node* Emitter::shift_right(Node* a, Node* by, std::optional<int64_t> known) {
  constexpr int64_t kMost = 62;
  const DType dtype = a->type()->dtype();
  if (dtype != DType::I64) return cast(shift_right(cast(a, DType::I64), cast(by, DType::I64), known), dtype);
  Node *two = constant({Integer(2)}, dtype), *most = constant({Integer(kMost)}, dtype);
  if (known && *known <= kMost) return floor_divide(a, op("Pow", {two, by}));
  Node* part = floor_divide(a, op("Pow", {two, known ? most : op("Min", {by, most})}));
  Node* whole = floor_divide(part, two);
  return known ? whole : op("Where", {op("Greater", {by, most}), whole, part});
}

// Of two integers, exactly, where CPython leaves it to the running program.
std::optional<Integer> Emitter::exact_integer(Kind kind, const Constant& a, const Constant& b) const {
  if (!a.is<Integer>() || !b.is<Integer>()) return std::nullopt;
  constexpr unsigned kMostBits = 4096;
  const Integer &x = a.as<Integer>(), &y = b.as<Integer>();
  auto bits = [](const Integer& value) { return value == 0 ? 0u : msb(abs(value)) + 1; };
  auto bound = [&](const Integer& expected) {
    if (expected > kMostBits)
      fail(ErrorCode::InvalidArgument, fmt::format("this integer has more than {} bits", kMostBits), "use a float");
  };
  switch (kind) {
    case Kind::Mult: bound(Integer(bits(x)) + bits(y)); return Integer(x * y);
    case Kind::LShift:
    case Kind::RShift:
      if (y < 0) fail(ErrorCode::InvalidArgument, "the number of bits to shift by is negative", "shift the other way");
      if (kind == Kind::RShift) return std::nullopt;
      bound(bits(x) + y);
      return Integer(x << static_cast<unsigned>(y));
    case Kind::Pow:
      if (y < 0) return std::nullopt;
      bound(bits(x) * y);
      return Integer(pow(x, static_cast<unsigned>(y)));
    default: return std::nullopt;
  }
}

namespace {

// The integers that ONNX has all of arithmetic for.
bool is_main_integer(DType dtype) { return dtype == DType::I32 || dtype == DType::I64; }

}  // namespace

// An operator on integers that ONNX has it not for is computed in others, modulo 2ⁿ.
Node* Emitter::computed_in(DType other, DType type, std::string_view operation, Node* x, Node* y) {
  if (!is_integer(type) || is_main_integer(type)) return op(operation, {x, y});
  if (element_bits(type) > element_bits(other)) other = DType::I64;
  return cast(op(operation, {cast(x, other), cast(y, other)}), type);
}

Object Emitter::binary(Kind kind, const Object& a, const Object& b) {
  if (a.is<Constant>() && b.is<Constant>()) {
    if (auto folded = python::binary(kind, *a.as<Constant>(), *b.as<Constant>())) return {*folded};
    const Constant& right = *b.as<Constant>();
    const bool divides = kind == Kind::Div || kind == Kind::FloorDiv || kind == Kind::Mod;
    if (divides && is_known_number(b) && !python::truth(right))
      fail(ErrorCode::InvalidArgument, "division by zero", "the divisor is 0 whatever the arguments are");
    if (auto exact = exact_integer(kind, *a.as<Constant>(), right)) return {Constant{*exact}};
  }
  if (kind == Kind::Add && is_text(a) && is_text(b)) return {Array{op("StringConcat", {tensor(a), tensor(b)})}};
  auto refuse = [&](std::string_view hint) {
    fail(ErrorCode::TypeMismatch, fmt::format("{} {} {} is not defined", describe(a), symbol_of(kind), describe(b)),
         hint);
  };
  for (const Object* object : {&a, &b}) {
    if (describe(*object) == "complex") {
      fail(ErrorCode::Unsupported, "complex numbers of Python are not supported in a compiled function",
           "compute real and imaginary parts, or with an array of numpy.complex128");
    }
  }
  if (!is_numeric(a) || !is_numeric(b)) {
    refuse(a.is_none() || b.is_none()        ? "test for None before: if x is not None"
           : text_of(a) && kind == Kind::Mod ? "format numbers that only a run knows after the call"
                                             : "convert one of them: float(…), int(…), numpy.array(…)");
  }
  const bool is_number = this->is_number(a) && this->is_number(b);
  DType type = promoted(a, b);
  const bool is_bitwise = kind == Kind::BitAnd || kind == Kind::BitOr || kind == Kind::BitXor;
  if ((is_bitwise || kind == Kind::LShift || kind == Kind::RShift) && level(type) > 1)
    refuse("convert with astype(int), or compare first: (x > 0) & (y > 0)");
  if (type == DType::Bool && is_number && logical_operator(kind).empty()) type = DType::I64;
  if (type == DType::Bool && is_number && (kind == Kind::Add || kind == Kind::Mult))
    type = DType::I64;  // True + True is 2
  if (kind == Kind::Div && level(type) < 2) type = DType::F64;
  if (kind == Kind::Pow && is_number && level(type) < 2) {
    const auto exponent = integer_of(b);
    if (exponent && *exponent < 0) type = DType::F64;
  }
  Node* x = tensor(a, type);
  Node* y = tensor(b, type);
  auto made = [&](Node* node) -> Object { return is_number ? number(node) : Object{Array{node}}; };
  if (type == DType::Bool) {
    if (std::string_view logical = logical_operator(kind); !logical.empty()) return made(op(logical, {x, y}));
    refuse("use ^ or logical functions, or astype()");
  }
  switch (kind) {
    case Kind::Div: return made(op("Div", {x, y}));
    case Kind::FloorDiv: return made(floor_divide(x, y));
    case Kind::Mod: return made(remainder(x, y));
    case Kind::Pow: return made(computed_in(DType::I64, type, "Pow", x, y));
    case Kind::MatMult: return made(computed_in(DType::I32, type, "MatMul", x, y));
    case Kind::LShift:
      if (const auto by = integer_of(b); by && *by < 0)
        fail(ErrorCode::InvalidArgument, "the number of bits to shift by is negative", "shift the other way");
      if (!is_main_integer(type)) return made(op("BitShift", {x, y}, {{"direction", "LEFT"}}));
      return made(op("Mul", {x, op("Pow", {constant({Integer(2)}, type), y})}));
    case Kind::RShift:
      if (!is_main_integer(type)) return made(op("BitShift", {x, y}, {{"direction", "RIGHT"}}));
      return made(shift_right(x, y, integer_of(b)));
    default: return made(op(arithmetic_operator(kind), {x, y}));
  }
}

Object Emitter::compare(Kind kind, const Object& a, const Object& b) {
  if (a.is<Constant>() && b.is<Constant>()) {
    if (auto folded = python::compare(kind, *a.as<Constant>(), *b.as<Constant>())) return {Constant{*folded}};
  }
  auto is_text = [&](const Object& o) { return text_of(o) || (o.is<Array>() && o.as<Array>()->node->type()->is_tensor() && dtype(o) == DType::String); };
  if (is_text(a) && is_text(b) && (kind == Kind::Eq || kind == Kind::NotEq)) {  // one that a run chooses
    Node* equal = op("Equal", {tensor(a), tensor(b)});
    if (kind == Kind::NotEq) equal = op("Not", {equal});
    return rank(equal) == 0 ? number(equal) : Object{Array{equal}};
  }
  if (!is_numeric(a) || !is_numeric(b)) {
    if (kind == Kind::Eq || kind == Kind::NotEq)
      return {Constant{kind == Kind::NotEq}};  // what is of different kinds is not equal
    fail(ErrorCode::TypeMismatch, fmt::format("{} and {} have no order", describe(a), describe(b)),
         "compare numbers or tensors; == and != take anything");
  }
  const bool is_number = this->is_number(a) && this->is_number(b);
  const bool is_equality = kind == Kind::Eq || kind == Kind::NotEq;
  DType type = promoted(a, b);
  if (type == DType::Bool && !is_equality) type = DType::I32;
  Node* x = tensor(a, type);
  Node* y = tensor(b, type);
  auto made = [&](Node* node) -> Object { return is_number ? number(node) : Object{Array{node}}; };
  switch (kind) {
    case Kind::Eq: return made(op("Equal", {x, y}));
    case Kind::NotEq: return made(op("Not", {op("Equal", {x, y})}));
    case Kind::Lt: return made(op("Less", {x, y}));
    case Kind::LtE: return made(op("LessOrEqual", {x, y}));
    case Kind::Gt: return made(op("Greater", {x, y}));
    default: return made(op("GreaterOrEqual", {x, y}));
  }
}

Object Emitter::unary(Kind kind, const Object& a) {
  if (kind == Kind::Not) {
    const Object known = truth(a);
    if (const bool* value = known.constant<bool>()) return {Constant{!*value}};
    return number(op("Not", {tensor(known)}));
  }
  if (a.is<Constant>()) {
    if (auto folded = python::unary(kind, *a.as<Constant>())) return {*folded};
  }
  if (!is_numeric(a) || (kind == Kind::Invert && level(dtype(a)) > 1)) {
    fail(ErrorCode::TypeMismatch, fmt::format("{}({}) is not defined", symbol_of(kind), describe(a)),
         kind == Kind::Invert ? "convert with astype(int), or compare first: ~(x > 0)"
                              : "only numbers and tensors have a sign");
  }
  const bool is_number = this->is_number(a);
  Node* x = tensor(a);
  if (x->type()->dtype() == DType::Bool && is_number) x = cast(x, DType::I64);
  auto made = [&](Node* node) -> Object { return is_number ? number(node) : Object{Array{node}}; };
  if (kind == Kind::UAdd) return made(x);
  if (kind == Kind::Invert) return made(op(x->type()->dtype() == DType::Bool ? "Not" : "BitwiseNot", {x}));
  if (x->type()->dtype() == DType::Bool)
    fail(ErrorCode::TypeMismatch, "a bool tensor has no negative", "~x is its logical negation");
  return made(op("Neg", {x}));
}

Object Emitter::truth(const Object& object) {
  if (const auto* constant = object.as<Constant>()) return {Constant{python::truth(*constant)}};
  if (const Items* tuple = object.tuple()) return {Constant{!tuple->items.empty()}};
  const auto* array = object.as<Array>();
  if (!array) return {Constant{true}};
  Node* node = tensor(object);
  const Type* type = node->type();
  if (type->has_rank()) {
    for (ir::Dim dim : type->dims()) {
      if (!provably_equal(dim, module_.context().dims().constant(1))) {
        fail(ErrorCode::TypeMismatch, fmt::format("the truth of {} is ambiguous", to_string(type)),
             "use .any() or .all()");
      }
    }
  }
  if (!type->has_rank() || type->rank() > 0) node = op("Reshape", {node, integers(std::span<const int64_t>())});
  const DType dtype = type->dtype();
  if (dtype == DType::String) return number(op("Not", {op("Equal", {node, module_.constant(Tensor::scalar(std::string()))})}));
  if (dtype != DType::Bool) node = op("Not", {op("Equal", {node, constant({Integer(0)}, dtype)})});
  return number(node);
}

// Sizes --------------------------------------------------------------------------------------------------------------

int Emitter::rank(Node* tensor) const {
  if (!tensor->type()->has_rank()) {
    fail(ErrorCode::TypeMismatch, fmt::format("the rank of {} is not known here", to_string(tensor->type())),
         "reshape() gives it one");
  }
  return tensor->type()->rank();
}

Object Emitter::size(Node* tensor, int axis) {
  if (auto known = tensor->type()->dim(axis).as_constant()) return make_integer(*known);
  Node* vector = op("Shape", {tensor}, {{"start", axis}, {"end", axis + 1}});
  return number(op("Squeeze", {vector, integers({0})}));
}

Object Emitter::number(Node* node) {
  if (const Tensor* known = constant_tensor(node); known && known->rank() == 0) {
    if (known->dtype() == DType::I64) return make_integer(known->data<int64_t>()[0]);
    if (known->dtype() == DType::F64) return {Constant{known->data<double>()[0]}};
    if (known->dtype() == DType::Bool) return {Constant{known->data<bool>()[0]}};
  }
  const DType dtype = node->type()->is_tensor() ? node->type()->dtype() : DType::Undefined;
  if (dtype == DType::I64 || dtype == DType::Bool) {
    if (auto elements = inference_.elements(node); elements && elements->size() == 1) {
      if (auto known = (*elements)[0].as_constant())
        return dtype == DType::Bool ? Object{Constant{*known != 0}} : make_integer(*known);
    }
  }
  return {Array{node, true}};
}

Node* Emitter::vector(std::span<const Object> numbers) {
  std::vector<int64_t> known;
  for (const Object& number : numbers) {
    if (auto value = integer_of(number)) known.push_back(*value);
  }
  if (known.size() == numbers.size()) return integers(known);
  std::vector<Node*> parts;
  for (const Object& number : numbers) parts.push_back(op("Reshape", {tensor(number, DType::I64), integers({-1})}));
  return parts.size() == 1 ? parts[0] : apply("Concat", parts, {{"axis", int64_t{0}}});
}

}  // namespace anfora::python
