// The loop IR: what kernels are generated from. A function is a tree of blocks of values in static single assignment form.
//
//     function product(%a: pointer, %b: pointer, %y: pointer) {
//       %zero = 0.0
//       %sums = for %k = 0 to 768 unroll 4 carry (%sum: f32[6x2x8] = %zero) {
//         %column = load f32[6x1x1] %a + %k rows 768
//         %row = load f32[1x2x8] %b + %k * 16
//         yield fma %column, %row, %sum
//       }
//       store %y, %sums rows 3072
//     }
//
// A value is a tile of registers: rows × vectors × lanes of an element. Where operands of an operation differ in an extent, one of
// them has extent 1 there, and is repeated: so a column times a row is an outer product. Addresses count in elements. Integers
// (`index`) and addresses (`pointer`) are single.
//
// Operations on tiles are computed element by element where they are needed: a chain of them from a load to a store keeps one
// vector of each, not one tile. Hence a block may not write what it also reads, but at the same place and after it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/generated/isa.h"

namespace anfora::codegen {

using kernels::generated::Isa;
using kernels::generated::IsaDescription;

enum class Element : uint8_t { Index, Pointer, F32, I32, I64, Mask };

struct Type {
  Element element = Element::F32;
  int rows = 1, vectors = 1, lanes = 1;

  bool operator==(const Type&) const = default;
  bool is_single() const { return rows == 1 && vectors == 1 && lanes == 1; }
  int registers() const {
    return element == Element::F32 || element == Element::I32 ? rows * vectors : element == Element::I64 ? 2 * rows * vectors : 0;
  }
};

enum class Op : uint8_t {
  Parameter,  // by number
  Integer,    // an index
  Float,      // f32[1x1x1]
  Bits,       // i32[1x1x1] or i64[1x1x1]
  Item,       // of the loop: 0 its counter, then what it carries; inside of it
  Result,     // by number: what a loop carried, what an `if` yields; behind it
  Offset,     // pointer, index → pointer; number: bytes of an element
  Load,       // pointer, stride of rows, mask? → tile; other lanes are 0. Of a mask: bytes, on where they are not 0. number: InMemory
  Store,      // pointer, stride of rows, tile, mask?; a mask as bytes of 0 and 1. number: InMemory, of which the sign does not matter
  Prefetch,   // pointer, stride of rows: the lines of a tile come into a cache. number: Fetch
  Columns,    // index n → mask[1 x vectors x lanes]: the first n lanes
  Add,
  Subtract,
  Multiply,
  Divide,
  Minimum,
  Maximum,  // index, f32; i32 and i64 but for Divide. Divide of indices: by a constant above 0. Minimum: a < b ? a : b
  Fma,      // a · b + c with one rounding
  DotBytes,   // i32 a, b, c: c + Σ of the products of their four bytes, of a without sign, of b with
  DotHalves,  // the same of two halves, both with sign
  Less,     // → mask; of indices: single
  LessOrEqual,
  Equal,       // f32, i32, i64 → mask; false of NaN, as Less
  SquareRoot,  // f32
  Transpose,   // f32[lanes x 1 x lanes]: rows become columns
  // f32[1x1xlanes] → f32[1x1x1]: halves are combined until one element is left. f32[lanes x 1 x lanes] → f32[1x1xlanes]: each row
  SumOfLanes,
  LargestOfLanes,
  SmallestOfLanes,
  AnyOfLanes,  // mask[1x1xlanes] → mask: whether one is on
  Select,           // mask, a, b
  And,
  Or,
  Xor,  // i32, masks
  ShiftLeft,
  ShiftRight,  // i32; by 0 to 31 bits, to the right with the sign
  AsBits,
  AsFloat,  // f32 ↔ i32, the same bits
  ToFloat,  // i32, i64 → f32, the nearest
  ToNearest,  // f32 → i32, of two the even one; the least integer where it does not fit
  ToInteger,  // f32 → i32 or i64, truncated, the least integer where it does not fit; i32 → i64; i64 → i32, the low bits
  For,      // begin, end, initial values…; a block with items, whose yields are carried on
  If,       // mask; two blocks, of which one runs and yields
};

// What an element is in memory: a word, or two of an i64; an i32 a byte, to which a store drops the others; an f32 that is loaded also f16 or bf16.
enum class InMemory : uint8_t { Word, UnsignedByte, SignedByte, Half, BFloat };

// What lines are fetched for: to be read later, from the second-level cache, or to be read or written at once.
enum class Fetch : uint8_t { Later, Read, Write };

using Value = int32_t;  // the number of a node in its function
inline constexpr Value kNone = -1;

struct Block {
  std::vector<Value> items;  // of a loop
  std::vector<Value> nodes;  // in order
  std::vector<Value> yields;
};

struct Node {
  Op op = Op::Integer;
  Type type;
  std::vector<Value> operands;
  int64_t number = 0;  // of Parameter, Integer, Bits, Item, Result, Offset, Load, Store, Prefetch
  float scalar = 0;    // of Float
  int unroll = 1;      // of For
  std::array<int, 2> blocks{-1, -1};
};

// Bytes of an element in memory.
inline int64_t bytes_in_memory(const Node& node) {
  if (node.type.element == Element::Mask) return 1;
  if (node.type.element == Element::I64) return 8;
  if (node.op == Op::Prefetch) return 4;
  switch (static_cast<InMemory>(node.number)) {
    case InMemory::Word: return 4;
    case InMemory::UnsignedByte:
    case InMemory::SignedByte: return 1;
    case InMemory::Half:
    case InMemory::BFloat: return 2;
  }
  return 4;
}

struct Parameter {
  std::string name;
  Element element;  // Pointer or Index
};

struct Function {
  std::string name;
  std::vector<Parameter> parameters;
  std::vector<Node> nodes;
  std::vector<Block> blocks;  // the first is the body

  const Node& node(Value value) const { return nodes[static_cast<size_t>(value)]; }
  const Block& block(int number) const { return blocks[static_cast<size_t>(number)]; }
};

// Appends to a function. Types follow from operands; verify() finds what does not fit.
class Builder {
 public:
  explicit Builder(std::string name);

  Value parameter(std::string name, Element element);
  Value integer(int64_t number);
  Value constant(float number);
  Value bits(int32_t number);
  Value long_bits(int64_t number);

  Value offset(Value pointer, Value index, int64_t element_bytes = 4);
  Value load(Type type, Value pointer, Value row_stride, Value mask = kNone, InMemory as = InMemory::Word);
  void store(Value pointer, Value row_stride, Value tile, Value mask = kNone, InMemory as = InMemory::Word);
  void prefetch(Type type, Value pointer, Value row_stride, Fetch fetch);
  Value columns(int vectors, int lanes, Value count);

  // Of operands that are repeated to a common type.
  Value binary(Op op, Value a, Value b);
  Value add(Value a, Value b) { return binary(Op::Add, a, b); }
  Value subtract(Value a, Value b) { return binary(Op::Subtract, a, b); }
  Value multiply(Value a, Value b) { return binary(Op::Multiply, a, b); }
  Value divide(Value a, Value b) { return binary(Op::Divide, a, b); }
  Value minimum(Value a, Value b) { return binary(Op::Minimum, a, b); }
  Value maximum(Value a, Value b) { return binary(Op::Maximum, a, b); }
  Value less(Value a, Value b) { return binary(Op::Less, a, b); }
  Value fma(Value a, Value b, Value c);
  // c + a · b of the parts of a word: Op::DotBytes or Op::DotHalves.
  Value dot(Op op, Value a, Value b, Value c);
  Value square_root(Value a);
  Value transpose(Value a);
  Value of_lanes(Op op, Value a);
  Value select(Value mask, Value a, Value b);
  Value as_bits(Value a);
  Value as_float(Value a);
  Value to_float(Value a);
  Value to_integer(Value a, Element element);
  Value to_nearest(Value a);

  // body(counter, carried) gives the values to carry on. Initial values are repeated as operands are, to tiles of type `carried`.
  using LoopBody = std::function<std::vector<Value>(Value counter, std::span<const Value> carried)>;
  std::vector<Value> loop(int64_t begin, Value end, int unroll, std::span<const Type> types,
                          std::span<const Value> initial, const LoopBody& body);
  void loop(int64_t begin, Value end, const std::function<void(Value counter)>& body);
  void choose(Value condition, const std::function<void()>& then, const std::function<void()>& otherwise);
  // The tile that one of them gives; what is repeated stands for a tile.
  Value choose(Value condition, const Type& type, const std::function<Value()>& then,
               const std::function<Value()>& otherwise);

  const Type& type(Value value) const { return function_.node(value).type; }
  Function finish() { return std::move(function_); }

 private:
  Value append(Node node);
  int add_block();
  template <class Body>
  void inside(int block, const Body& body);

  Function function_;
  int current_ = 0;
};

// The type to which both are repeated, with a's element; throws Internal where they do not fit.
Type repeated(const Type& a, const Type& b);

std::string to_string(const Type& type);
std::string to_string(const Function& function);
// Bytes that are the same where functions are, whatever they and their parameters are called: a key of the code that is made of them.
std::string encoded(const Function& function);
std::string_view name(Op op);

// Throws Internal, naming the value: types of operands, definitions before uses and in their scope, masks on single columns,
// numbers of parameters, loops that carry on what they began with, and tiles that fit the registers.
void verify(const Function& function, const IsaDescription& isa);

}  // namespace anfora::codegen
