// What is known of an operator. Declarations live in src/ops, one an operator; this is only their form.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "anfora/dtype.h"
#include "ir/value_range.h"
#include "support/attribute.h"

namespace anfora::ops {
class InferenceContext;
class RangeContext;
struct ChannelsLast;
}

namespace anfora::ir {

// Primitives that the IR itself gives a meaning to; all others are Operation.
enum class Primitive : uint8_t {
  Operation,
  Return,        // return(x): the result of the graph; every graph has one
  Call,          // call f(a…): f has Func type
  Switch,        // Switch(condition, f, g): f where the scalar condition is true, else g; a Func value
  MakeTuple,     // (a, b, …)
  TupleGetItem,  // TupleGetItem{index}(t)
};

enum class FusionKind : uint8_t {
  Opaque,       // never fused
  Elementwise,  // each output element from the input elements at the same place
  Broadcast,    // elementwise with broadcasting
  Injective,    // moves elements: transpose, slice, gather
  View,         // same bytes, another shape
  Reduction,
  Anchor,  // heavy; takes elementwise epilogues: convolution, matrix product
};

enum class Effect : uint8_t {
  Pure,
  Random,  // draws from the executable's random state, unless it carries a seed
  State,   // reads or writes through a state token
};

// What data of the right types and static shapes may make it fail.
enum class Fails : uint8_t {
  OnAnything,  // an index, a text to read
  OnShape,     // a shape in operand 1
  OnZero,      // an integer divisor in operand 1
  Never,
};

// How it takes the elements of operand 0 by a list of places along each axis (passes/simplify/index_maps.cc).
enum class Movement : uint8_t {
  None,         // not so
  Permutation,  // of the axes
  Slice,
  Gather,
  Pad,
  Repetition,  // of what lies along an axis
};

// What a reduction makes no difference of.
enum class Reduces : uint8_t {
  Nothing,  // it is none
  Order,    // of the elements
  Zeros,    // nor of how many zeros are among them
  Repeats,  // nor of how often each is among them
};

// Functions of numbers and conditions that are linear piece by piece: those that an operator may be, and the steps that expressions have
// besides (analysis/piecewise.h).
enum class PiecewiseOp : uint8_t {
  None,  // it is none of them
  Add, Sub, Mul, Min, Max, Neg, Abs, Relu, Sign, Clip, Where,
  Less, LessOrEqual, Equal, And, Or, Xor, Not,
  Div, LeakyRelu, Greater, GreaterOrEqual, Cast,  // in expressions by others
  Leaf, Constant,                                 // of expressions alone
  Number, Truth,                                  // what Cast is: of a condition 1 or 0, of a number whether it is not 0
};

// Whether its elements are whole numbers, infinities or NaNs.
enum class Whole : uint8_t {
  NotKnown,
  OfWhole,  // where those of all operands are
  Always,
};

struct Formal {  // of an input or output
  enum class Arity : uint8_t { Required, Optional, Variadic };
  std::string name;
  std::string type;  // a type variable ("T") or one type ("i64", "seq(T)")
  Arity arity = Arity::Required;
  int at_least = 1;  // of a variadic
};

// How many operands or results such a list allows. Optional ones at its end may be left out, also in front of a variadic without any.
struct Arity {
  size_t least = 0, most = 0;
};
inline Arity arity_of(const std::vector<Formal>& formals) {
  Arity arity{0, formals.size()};
  for (size_t i = 0; i < formals.size(); ++i) {
    if (formals[i].arity == Formal::Arity::Required) arity.least = i + 1;
    if (formals[i].arity != Formal::Arity::Variadic) continue;
    if (formals[i].at_least > 0) arity.least = i + static_cast<size_t>(formals[i].at_least);
    arity.most = SIZE_MAX;
  }
  return arity;
}

struct AttributeDeclaration {
  enum class Kind : uint8_t { Int, Float, String, Tensor, Ints, Floats, Strings, Tensors, Type, Any };
  std::string name;
  Kind kind;
  bool required = false;
  std::optional<AttributeValue> otherwise;  // the default
};

// Dtypes that a type variable may stand for; empty: any type at all, also sequences.
struct TypeVariable {
  std::string name;
  std::vector<DType> dtypes;
};

struct Cost {
  double flops = 0;
  double bytes = 0;  // read and written
};

struct Operator {
  std::string domain;     // "" is ONNX's main domain, "anfora" our own primitives
  std::string name;       // "Conv"
  std::string qualified;  // "Conv", "ai.onnx.ml::Scaler"
  std::string doc;
  int since = 1;  // the opset version whose semantics these are
  Primitive primitive = Primitive::Operation;
  bool known = true;  // false: an operator of a domain that nothing was declared of

  std::vector<Formal> inputs, outputs;
  std::vector<AttributeDeclaration> attributes;
  std::vector<TypeVariable> variables;

  // Of a caller's own: the types, as kernels/operator_signature.h has it; else empty.
  std::string signature;
  // Types of the outputs from those of the inputs; see ops/inference.h. Null: unknown outputs.
  void (*infer)(ops::InferenceContext&) = nullptr;
  // Null: bytes only.
  double (*flops)(const ops::InferenceContext&) = nullptr;
  // Bounds of output 0's elements from those of the inputs; see ops/ranges.h. Null: what the facts below say.
  ValueRange (*range)(ops::RangeContext&) = nullptr;
  // How it is computed where images lie in memory with their channels last; see ops/layouts.h. Null: not at all, or elementwise.
  bool (*layout)(ops::ChannelsLast&) = nullptr;
  FusionKind fusion = FusionKind::Opaque;
  bool broadcasts_to_first = false;  // of kind Broadcast: the result has the shape of the first operand
  Effect effect = Effect::Pure;
  // Inputs whose memory output 0 may take over, element for element, when nobody else needs it and it has as many bytes.
  std::vector<int> in_place;
  std::string kernel;  // name of the reference kernel; empty: there is none
  // What it means, as functions in the text form, the first of its own name (ir/library.h); empty: a library may say it.
  std::string_view meaning;

  bool commutative = false;  // f(a, b) = f(b, a)
  bool associative = false;  // f(f(a, b), c) = f(a, f(b, c)), as far as numbers are not rounded
  bool has_axis = false;     // `axis` counts the axes of operand 0, from the end where it is negative
  bool takes_elements = false;  // each element of a result is one of operand 0
  bool in_file = false;         // its result lies in a file, not in memory that a plan counts
  bool calls = false;           // operand 0, a function, with the operands behind those that are functions
  bool sums = false;            // its result is rounded otherwise where elements come in another order
  bool widens = false;          // computes with half precision in f32, as kernels do
  bool total = false;           // gives finite numbers of finite ones, where nothing overflows
  bool rising = false;          // a function of one operand that never falls
  bool at_least_operand = false;  // of floats: no element is below that of operand 0
  bool at_most_operand = false;   // of floats: no element is above that of operand 0
  bool scales = false;          // f(c · x) = c · f(x) for c > 0, of all operands of its element type
  std::string mirror;           // the operator g with f(−x) = −g(x), of the same operands; empty: none
  bool keeps_sign = false;      // a function of one operand that is below, at and above 0 where that is
  Whole whole = Whole::NotKnown;
  bool keeps_nan = false;       // of floats: its element is a NaN where an operand's is one
  PiecewiseOp piecewise = PiecewiseOp::None;
  Movement movement = Movement::None;
  Reduces reduces = Reduces::Nothing;
  Fails fails = Fails::OnAnything;

  const AttributeDeclaration* find_attribute(std::string_view attribute_name) const;
  std::optional<size_t> find_input(std::string_view input_name) const;
};

}  // namespace anfora::ir
