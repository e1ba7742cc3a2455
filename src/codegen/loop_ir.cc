#include "codegen/loop_ir.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "anfora/error.h"

namespace anfora::codegen {
namespace {

int repeated_extent(int a, int b) {
  if (a != b && a != 1 && b != 1) throw Error(ErrorCode::Internal, fmt::format("tiles of extents {} and {}", a, b));
  return std::max(a, b);
}

}  // namespace

Type repeated(const Type& a, const Type& b) {
  return {a.element, repeated_extent(a.rows, b.rows), repeated_extent(a.vectors, b.vectors),
          repeated_extent(a.lanes, b.lanes)};
}

Builder::Builder(std::string name) {
  function_.name = std::move(name);
  add_block();
}

int Builder::add_block() {
  function_.blocks.emplace_back();
  return static_cast<int>(function_.blocks.size()) - 1;
}

Value Builder::append(Node node) {
  function_.nodes.push_back(std::move(node));
  const auto value = static_cast<Value>(function_.nodes.size() - 1);
  function_.blocks[static_cast<size_t>(current_)].nodes.push_back(value);
  return value;
}

template <class Body>
void Builder::inside(int block, const Body& body) {
  const int outer = std::exchange(current_, block);
  body();
  current_ = outer;
}

Value Builder::parameter(std::string name, Element element) {
  function_.parameters.push_back({std::move(name), element});
  return append({.op = Op::Parameter, .type = {element}, .number = std::ssize(function_.parameters) - 1});
}
Value Builder::integer(int64_t number) {
  return append({.op = Op::Integer, .type = {Element::Index}, .number = number});
}
Value Builder::constant(float number) { return append({.op = Op::Float, .type = {Element::F32}, .scalar = number}); }
Value Builder::bits(int32_t number) { return append({.op = Op::Bits, .type = {Element::I32}, .number = number}); }
Value Builder::long_bits(int64_t number) { return append({.op = Op::Bits, .type = {Element::I64}, .number = number}); }

Value Builder::offset(Value pointer, Value index, int64_t element_bytes) {
  return append({.op = Op::Offset, .type = {Element::Pointer}, .operands = {pointer, index}, .number = element_bytes});
}

Value Builder::load(Type type, Value pointer, Value row_stride, Value mask, InMemory as) {
  Node node{.op = Op::Load, .type = type, .operands = {pointer, row_stride}, .number = static_cast<int64_t>(as)};
  if (mask != kNone) node.operands.push_back(mask);
  return append(std::move(node));
}

void Builder::store(Value pointer, Value row_stride, Value tile, Value mask, InMemory as) {
  Node node{
      .op = Op::Store, .type = type(tile), .operands = {pointer, row_stride, tile}, .number = static_cast<int64_t>(as)};
  if (mask != kNone) node.operands.push_back(mask);
  append(std::move(node));
}

void Builder::prefetch(Type type, Value pointer, Value row_stride, Fetch fetch) {
  append({.op = Op::Prefetch, .type = type, .operands = {pointer, row_stride}, .number = static_cast<int64_t>(fetch)});
}

Value Builder::columns(int vectors, int lanes, Value count) {
  return append({.op = Op::Columns, .type = {Element::Mask, 1, vectors, lanes}, .operands = {count}});
}

Value Builder::binary(Op op, Value a, Value b) {
  Type result = repeated(type(a), type(b));
  if (op == Op::Less || op == Op::LessOrEqual || op == Op::Equal) result.element = Element::Mask;
  return append({.op = op, .type = result, .operands = {a, b}});
}

Value Builder::fma(Value a, Value b, Value c) {
  return append({.op = Op::Fma, .type = repeated(repeated(type(a), type(b)), type(c)), .operands = {a, b, c}});
}

Value Builder::dot(Op op, Value a, Value b, Value c) {
  return append({.op = op, .type = repeated(repeated(type(a), type(b)), type(c)), .operands = {a, b, c}});
}

Value Builder::square_root(Value a) { return append({.op = Op::SquareRoot, .type = type(a), .operands = {a}}); }

Value Builder::transpose(Value a) { return append({.op = Op::Transpose, .type = type(a), .operands = {a}}); }

Value Builder::of_lanes(Op op, Value a) {
  const Type& tile = type(a);
  const int lanes = tile.rows == 1 ? 1 : tile.lanes;
  return append({.op = op, .type = {tile.element, 1, 1, lanes}, .operands = {a}});
}

Value Builder::select(Value mask, Value a, Value b) {
  const Type result = repeated(repeated(type(a), type(b)), type(mask));
  return append({.op = Op::Select, .type = result, .operands = {mask, a, b}});
}

Value Builder::as_bits(Value a) {
  Type result = type(a);
  result.element = Element::I32;
  return append({.op = Op::AsBits, .type = result, .operands = {a}});
}

Value Builder::as_float(Value a) {
  Type result = type(a);
  result.element = Element::F32;
  return append({.op = Op::AsFloat, .type = result, .operands = {a}});
}

Value Builder::to_float(Value a) {
  Type result = type(a);
  result.element = Element::F32;
  return append({.op = Op::ToFloat, .type = result, .operands = {a}});
}

Value Builder::to_nearest(Value a) {
  Type result = type(a);
  result.element = Element::I32;
  return append({.op = Op::ToNearest, .type = result, .operands = {a}});
}

Value Builder::to_integer(Value a, Element element) {
  Type result = type(a);
  result.element = element;
  return append({.op = Op::ToInteger, .type = result, .operands = {a}});
}

std::vector<Value> Builder::loop(int64_t begin, Value end, int unroll, std::span<const Type> types,
                                 std::span<const Value> initial, const LoopBody& body) {
  std::vector<Value> operands{integer(begin), end};
  operands.insert(operands.end(), initial.begin(), initial.end());
  const int block = add_block();
  const Value loop =
      append({.op = Op::For, .type = {Element::Index}, .operands = operands, .unroll = unroll, .blocks = {block, -1}});
  inside(block, [&] {
    std::vector<Value> items;
    auto add_item = [&](const Type& type) {
      function_.nodes.push_back({.op = Op::Item, .type = type, .operands = {loop}, .number = std::ssize(items)});
      items.push_back(static_cast<Value>(function_.nodes.size() - 1));
    };
    add_item({Element::Index});
    for (const Type& type : types) add_item(type);
    function_.blocks[static_cast<size_t>(block)].items = items;
    std::vector<Value> yields = body(items[0], std::span(items).subspan(1));
    function_.blocks[static_cast<size_t>(block)].yields = std::move(yields);
  });
  std::vector<Value> results;
  for (const Type& type : types) {
    results.push_back(append({.op = Op::Result, .type = type, .operands = {loop}, .number = std::ssize(results)}));
  }
  return results;
}

void Builder::loop(int64_t begin, Value end, const std::function<void(Value counter)>& body) {
  loop(begin, end, 1, {}, {}, [&](Value counter, std::span<const Value>) {
    body(counter);
    return std::vector<Value>();
  });
}

void Builder::choose(Value condition, const std::function<void()>& then, const std::function<void()>& otherwise) {
  const int first = add_block(), second = add_block();
  append({.op = Op::If, .type = {Element::Index}, .operands = {condition}, .blocks = {first, second}});
  inside(first, then);
  inside(second, otherwise);
}

Value Builder::choose(Value condition, const Type& type, const std::function<Value()>& then,
                      const std::function<Value()>& otherwise) {
  const int first = add_block(), second = add_block();
  const Value chosen =
      append({.op = Op::If, .type = {Element::Index}, .operands = {condition}, .blocks = {first, second}});
  for (const auto& [block, body] : {std::pair(first, &then), std::pair(second, &otherwise)}) {
    inside(block, [&] {
      const Value yielded = (*body)();
      function_.blocks[static_cast<size_t>(block)].yields = {yielded};
    });
  }
  return append({.op = Op::Result, .type = type, .operands = {chosen}, .number = 0});
}

std::string encoded(const Function& function) {
  std::vector<int32_t> words;
  constexpr size_t kWordsOfNode = 16;  // or so
  words.reserve(kWordsOfNode * function.nodes.size());
  auto put = [&](auto... all) { (words.push_back(static_cast<int32_t>(all)), ...); };
  auto put_list = [&](const std::vector<Value>& values) {
    put(values.size());
    words.insert(words.end(), values.begin(), values.end());
  };
  put(function.parameters.size(), function.nodes.size(), function.blocks.size());
  for (const Parameter& parameter : function.parameters) put(parameter.element);
  for (const Node& node : function.nodes) {
    put(node.op, node.type.element, node.type.rows, node.type.vectors, node.type.lanes, node.number, node.number >> 32, std::bit_cast<int32_t>(node.scalar), node.unroll,
        node.blocks[0], node.blocks[1]);
    put_list(node.operands);
  }
  for (const Block& block : function.blocks) {
    put_list(block.items);
    put_list(block.nodes);
    put_list(block.yields);
  }
  return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(int32_t)};
}

}  // namespace anfora::codegen
