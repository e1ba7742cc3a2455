#include "codegen/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "anfora/error.h"
#include "support/element_types.h"

namespace anfora::codegen {
namespace {

// The elements of a tile by row, vector and lane: numbers of an index, a pointer or an i64, else 32 bits each; a mask has 0 and 1.
using Elements = std::vector<int64_t>;

float as_float(int64_t element) { return std::bit_cast<float>(static_cast<uint32_t>(element)); }
int64_t from_float(float value) { return static_cast<int64_t>(std::bit_cast<uint32_t>(value)); }
int64_t from_int(int32_t value) { return static_cast<int64_t>(static_cast<uint32_t>(value)); }

// Where the element of a repeated operand lies that belongs to element i of the result.
size_t repeated_index(const Type& result, const Type& operand, size_t i) {
  const size_t lanes = static_cast<size_t>(result.lanes), vectors = static_cast<size_t>(result.vectors);
  const size_t lane = operand.lanes == 1 ? 0 : i % lanes;
  const size_t vector = operand.vectors == 1 ? 0 : i / lanes % vectors;
  const size_t row = operand.rows == 1 ? 0 : i / lanes / vectors;
  return (row * static_cast<size_t>(operand.vectors) + vector) * static_cast<size_t>(operand.lanes) + lane;
}

size_t count(const Type& type) {
  return static_cast<size_t>(type.rows) * static_cast<size_t>(type.vectors * type.lanes);
}

Elements repeated(const Elements& elements, const Type& of, const Type& to) {
  Elements all(count(to));
  for (size_t i = 0; i < all.size(); ++i) all[i] = elements[repeated_index(to, of, i)];
  return all;
}

int64_t compute_index(Op op, int64_t a, int64_t b) {
  switch (op) {
    case Op::Add: return a + b;
    case Op::Subtract: return a - b;
    case Op::Multiply: return a * b;
    case Op::Divide: return a / b;
    case Op::Less: return a < b;
    case Op::Minimum: return std::min(a, b);
    case Op::Maximum: return std::max(a, b);
    default: throw Error(ErrorCode::Internal, fmt::format("loop IR: {} of indices", name(op)));
  }
}

// Out of range, and of NaN: the least.
template <class Int>
Int truncated(float x) {
  constexpr auto kBound = -static_cast<float>(std::numeric_limits<Int>::min());
  return x >= -kBound && x < kBound ? static_cast<Int>(x) : std::numeric_limits<Int>::min();
}

int64_t compute_float(Op op, float a, float b, float c) {
  switch (op) {
    case Op::Add: return from_float(a + b);
    case Op::Subtract: return from_float(a - b);
    case Op::Multiply: return from_float(a * b);
    case Op::Divide: return from_float(a / b);
    case Op::Minimum: return from_float(a < b ? a : b);
    case Op::Maximum: return from_float(a > b ? a : b);
    case Op::Fma: return from_float(std::fma(a, b, c));
    case Op::Less: return a < b;
    case Op::LessOrEqual: return a <= b;
    case Op::Equal: return a == b;
    case Op::SquareRoot: return from_float(std::sqrt(a));
    case Op::ToNearest: return from_int(truncated<int32_t>(std::nearbyint(a)));
    default: throw Error(ErrorCode::Internal, fmt::format("loop IR: {} of f32", name(op)));
  }
}

// Of two lanes; a NaN goes on.
float combine_lanes(Op op, float a, float b) {
  switch (op) {
    case Op::SumOfLanes: return a + b;
    case Op::LargestOfLanes: return a > b || a != a ? a : b;
    case Op::SmallestOfLanes: return a < b || a != a ? a : b;
    default: throw Error(ErrorCode::Internal, fmt::format("loop IR: {} of lanes", name(op)));
  }
}

// c + Σ of the products of the parts of two words, around 2³².
template <class A, class B>
int64_t dot(int64_t a, int64_t b, int64_t c) {
  constexpr int kBits = 8 * sizeof(A);
  int64_t sum = c;
  for (int bit = 0; bit < 32; bit += kBits) sum += int64_t{static_cast<A>(a >> bit)} * static_cast<B>(b >> bit);
  return from_int(static_cast<int32_t>(sum));
}

int64_t of_lanes(Op op, Elements lanes) {
  for (; lanes.size() > 1; lanes.resize(lanes.size() / 2)) {
    for (size_t i = 0; i < lanes.size() / 2; ++i)
      lanes[i] = from_float(combine_lanes(op, as_float(lanes[i]), as_float(lanes[i + lanes.size() / 2])));
  }
  return lanes[0];
}

int64_t compute_long(Op op, int64_t x, int64_t y) {
  const auto a = static_cast<uint64_t>(x), b = static_cast<uint64_t>(y);
  switch (op) {
    case Op::Add: return static_cast<int64_t>(a + b);
    case Op::Subtract: return static_cast<int64_t>(a - b);
    case Op::Multiply: return static_cast<int64_t>(a * b);
    case Op::Minimum: return std::min(x, y);
    case Op::Maximum: return std::max(x, y);
    case Op::Less: return x < y;
    case Op::LessOrEqual: return x <= y;
    case Op::Equal: return x == y;
    case Op::ToFloat: return from_float(static_cast<float>(x));
    default: throw Error(ErrorCode::Internal, fmt::format("loop IR: {} of i64", name(op)));
  }
}

int64_t to_integer(Element from, Element to, int64_t x) {
  if (from == Element::F32) return to == Element::I32 ? from_int(truncated<int32_t>(as_float(x))) : truncated<int64_t>(as_float(x));
  const int64_t number = from == Element::I32 ? static_cast<int32_t>(x) : x;
  return to == Element::I32 ? from_int(static_cast<int32_t>(number)) : number;
}

int64_t compute_int(Op op, int64_t x, int64_t y, int64_t z) {
  const auto a = static_cast<uint32_t>(x), b = static_cast<uint32_t>(y);
  switch (op) {
    case Op::Add: return a + b;
    case Op::Subtract: return a - b;
    case Op::Multiply: return a * b;
    case Op::And: return a & b;
    case Op::Or: return a | b;
    case Op::Xor: return a ^ b;
    case Op::ShiftLeft: return a << b;
    case Op::ShiftRight: return from_int(static_cast<int32_t>(a) >> b);
    case Op::Less: return static_cast<int32_t>(a) < static_cast<int32_t>(b);
    case Op::LessOrEqual: return static_cast<int32_t>(a) <= static_cast<int32_t>(b);
    case Op::Equal: return a == b;
    case Op::Minimum: return from_int(std::min(static_cast<int32_t>(a), static_cast<int32_t>(b)));
    case Op::Maximum: return from_int(std::max(static_cast<int32_t>(a), static_cast<int32_t>(b)));
    case Op::DotBytes: return dot<uint8_t, int8_t>(x, y, z);
    case Op::DotHalves: return dot<int16_t, int16_t>(x, y, z);
    case Op::ToFloat: return from_float(static_cast<float>(static_cast<int32_t>(a)));
    default: throw Error(ErrorCode::Internal, fmt::format("loop IR: {} of i32", name(op)));
  }
}

class Evaluator {
 public:
  Evaluator(const Function& function, std::span<const int64_t> arguments, std::span<const Region> regions)
      : function_(function), arguments_(arguments), regions_(regions), values_(function.nodes.size()) {}

  void run(int block) {
    for (Value value : function_.block(block).nodes) compute(value);
  }

 private:
  Elements& at(Value value) { return values_[static_cast<size_t>(value)]; }
  int64_t single(Value value) { return at(value)[0]; }
  const Type& type(Value value) const { return function_.node(value).type; }

  template <class T>
  T* access(int64_t address, bool writes) const {
    const auto* pointer = reinterpret_cast<const float*>(address);
    for (const Region& region : regions_) {
      if (!std::less<>()(pointer, region.begin) && std::less<>()(pointer, region.begin + region.size) &&
          (!writes || region.is_written))
        return reinterpret_cast<T*>(address);
    }
    throw Error(ErrorCode::Internal, fmt::format("loop IR, {}: {} outside of the memory given", function_.name,
                                                 writes ? "writes" : "reads"));
  }

  // Calls f(i, address, is masked out) for each element of a tile in memory.
  template <class F>
  void for_each_element(const Node& node, size_t mask, const F& f) {
    const int64_t begin = single(node.operands[0]), row_stride = single(node.operands[1]);
    const int64_t columns = int64_t{node.type.vectors} * node.type.lanes;
    const int64_t element_bytes = bytes_in_memory(node);
    for (int64_t i = 0; i < static_cast<int64_t>(count(node.type)); ++i) {
      const int64_t row = i / columns, column = i % columns;
      const bool is_off = node.operands.size() > mask && at(node.operands[mask])[static_cast<size_t>(column)] == 0;
      f(static_cast<size_t>(i), begin + (row * row_stride + column) * element_bytes, is_off);
    }
  }

  void compute(Value value) {
    const Node& node = function_.node(value);
    Elements& result = at(value);
    switch (node.op) {
      case Op::Parameter: result = {arguments_[static_cast<size_t>(node.number)]}; return;
      case Op::Integer: result = {node.number}; return;
      case Op::Bits: result = {node.type.element == Element::I64 ? node.number : from_int(static_cast<int32_t>(node.number))}; return;
      case Op::Float: result = {from_float(node.scalar)}; return;
      case Op::Item: return;
      case Op::Result:
        result = repeated(carried_[static_cast<size_t>(node.number)], type(yielded_[static_cast<size_t>(node.number)]), node.type);
        return;
      case Op::Offset: result = {single(node.operands[0]) + single(node.operands[1]) * node.number}; return;
      case Op::Load:
        result.assign(count(node.type), 0);
        for_each_element(node, 2, [&](size_t i, int64_t address, bool is_off) {
          if (is_off) return;
          if (bytes_in_memory(node) == 8) {
            result[i] = *access<int64_t>(address, false);
          } else if (bytes_in_memory(node) == 4) {
            result[i] = from_float(*access<float>(address, false));
          } else if (bytes_in_memory(node) == 2) {
            const bool is_half = node.number == static_cast<int64_t>(InMemory::Half);
            result[i] = from_float(is_half ? static_cast<float>(*access<Float16>(address, false)) : static_cast<float>(*access<BFloat16>(address, false)));
          } else {
            const uint8_t byte = *access<uint8_t>(address, false);
            const bool is_signed = node.number == static_cast<int64_t>(InMemory::SignedByte);
            result[i] = node.type.element == Element::Mask ? byte != 0
                        : is_signed                        ? from_int(static_cast<int8_t>(byte))
                                                           : byte;
          }
        });
        return;
      case Op::Store: {
        const Elements& tile = at(node.operands[2]);
        for_each_element(node, 3, [&](size_t i, int64_t address, bool is_off) {
          if (is_off) return;
          if (bytes_in_memory(node) == 1)
            *access<uint8_t>(address, true) = static_cast<uint8_t>(tile[i]);
          else if (bytes_in_memory(node) == 8)
            *access<int64_t>(address, true) = tile[i];
          else
            *access<float>(address, true) = as_float(tile[i]);
        });
        return;
      }
      case Op::Prefetch: return;
      case Op::Columns:
        result.clear();
        for (int64_t i = 0; i < int64_t{node.type.vectors} * node.type.lanes; ++i)
          result.push_back(i < single(node.operands[0]));
        return;
      case Op::For: return loop(node);
      case Op::If: {
        const int chosen = node.blocks[single(node.operands[0]) != 0 ? 0 : 1];
        run(chosen);
        yielded_ = function_.block(chosen).yields;
        carried_.clear();
        for (Value yielded : yielded_) carried_.push_back(at(yielded));
        return;
      }
      case Op::Transpose: {
        const Elements& tile = at(node.operands[0]);
        const auto lanes = static_cast<size_t>(node.type.lanes);
        result.resize(tile.size());
        for (size_t i = 0; i < tile.size(); ++i) result[i] = tile[i % lanes * lanes + i / lanes];
        return;
      }
      case Op::SumOfLanes:
      case Op::LargestOfLanes:
      case Op::SmallestOfLanes: {
        const Elements& tile = at(node.operands[0]);
        const auto size = static_cast<std::ptrdiff_t>(type(node.operands[0]).lanes);
        result.clear();
        for (auto row = tile.begin(); row != tile.end(); row += size)
          result.push_back(of_lanes(node.op, {row, row + size}));
        return;
      }
      case Op::AnyOfLanes: result = {std::ranges::any_of(at(node.operands[0]), [](int64_t lane) { return lane != 0; })}; return;
      default: return elementwise(node, result);
    }
  }

  void loop(const Node& node) {
    const Block& body = function_.block(node.blocks[0]);
    std::vector<Elements> carried;
    for (size_t i = 1; i < body.items.size(); ++i) {
      const Value initial = node.operands[i + 1];
      carried.push_back(repeated(at(initial), type(initial), type(body.items[i])));
    }
    for (int64_t k = single(node.operands[0]); k < single(node.operands[1]); ++k) {
      at(body.items[0]) = {k};
      for (size_t i = 1; i < body.items.size(); ++i) at(body.items[i]) = carried[i - 1];
      run(node.blocks[0]);
      for (size_t i = 0; i < carried.size(); ++i) carried[i] = at(body.yields[i]);
    }
    carried_ = std::move(carried);  // read by the results, which follow
    yielded_ = body.yields;
  }

  void elementwise(const Node& node, Elements& result) {
    result.resize(count(node.type));
    const Element element = type(node.operands[node.op == Op::Select ? 1 : 0]).element;
    for (size_t i = 0; i < result.size(); ++i) {
      std::array<int64_t, 3> x{};
      for (size_t k = 0; k < node.operands.size(); ++k) {
        x[k] = at(node.operands[k])[repeated_index(node.type, type(node.operands[k]), i)];
      }
      if (node.op == Op::Select) {
        result[i] = x[0] != 0 ? x[1] : x[2];
      } else if (node.op == Op::AsBits || node.op == Op::AsFloat) {
        result[i] = x[0];
      } else if (node.op == Op::ToInteger) {
        result[i] = to_integer(element, node.type.element, x[0]);
      } else {
        const bool is_int = element == Element::I32 || element == Element::Mask;
        result[i] = element == Element::F32 ? compute_float(node.op, as_float(x[0]), as_float(x[1]), as_float(x[2]))
                    : element == Element::I64 ? compute_long(node.op, x[0], x[1])
                    : is_int                ? compute_int(node.op, x[0], x[1], x[2])
                                            : compute_index(node.op, x[0], x[1]);
      }
    }
  }

  const Function& function_;
  std::span<const int64_t> arguments_;
  std::span<const Region> regions_;
  std::vector<Elements> values_;
  std::vector<Elements> carried_;  // the results of what ended last,
  std::vector<Value> yielded_;     // and what they have the types of
};

}  // namespace

void evaluate(const Function& function, std::span<const int64_t> arguments, std::span<const Region> regions) {
  Evaluator(function, arguments, regions).run(0);
}

}  // namespace anfora::codegen
