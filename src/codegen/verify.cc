// The rules of the loop IR, checked.
#include <fmt/format.h>

#include <algorithm>

#include "anfora/error.h"
#include "codegen/loop_ir.h"

namespace anfora::codegen {
namespace {

class Verifier {
 public:
  Verifier(const Function& function, const IsaDescription& isa)
      : function_(function), isa_(isa), defined_(function.nodes.size(), false) {}

  void verify() {
    if (function_.blocks.empty()) fail(kNone, "a function without a body");
    block(0);
  }

 private:
  template <class... Arguments>
  [[noreturn]] void fail(Value value, fmt::format_string<Arguments...> form, Arguments&&... arguments) const {
    const std::string what = fmt::format(form, std::forward<Arguments>(arguments)...);
    throw Error(ErrorCode::Internal, value == kNone ? fmt::format("loop IR, {}: {}", function_.name, what)
                                                    : fmt::format("loop IR, {}, %{} ({}): {}", function_.name, value,
                                                                  name(function_.node(value).op), what));
  }

  // What a block defines is defined inside of it.
  void block(int number) {
    const Block& block = function_.block(number);
    for (Value item : block.items) define(item);
    for (Value value : block.nodes) {
      check(value);
      define(value);
    }
    for (Value value : block.yields) check_defined(kNone, value);
    for (Value value : block.nodes) defined_[static_cast<size_t>(value)] = false;
    for (Value item : block.items) defined_[static_cast<size_t>(item)] = false;
  }

  void define(Value value) {
    if (value < 0 || value >= std::ssize(function_.nodes)) fail(kNone, "a block names %{}", value);
    if (defined_[static_cast<size_t>(value)]) fail(value, "is defined twice");
    defined_[static_cast<size_t>(value)] = true;
  }
  void check_defined(Value user, Value value) const {
    if (value < 0 || value >= std::ssize(function_.nodes) || !defined_[static_cast<size_t>(value)])
      fail(user, "%{} is not defined here", value);
  }

  static bool is_integer(Element element) { return element == Element::I32 || element == Element::I64; }
  const Type& type(Value value) const { return function_.node(value).type; }
  void expect(Value user, Value operand, Element element) const {
    if (type(operand).element != element) fail(user, "%{} is {}", operand, to_string(type(operand)));
  }
  void expect_count(Value value, size_t least, size_t most) const {
    const size_t count = function_.node(value).operands.size();
    if (count < least || count > most) fail(value, "has {} operands", count);
  }
  void expect_type(Value value, Type type) const {
    if (function_.node(value).type != type)
      fail(value, "is {}, not {}", to_string(function_.node(value).type), to_string(type));
  }

  void check(Value value) {
    const Node& node = function_.node(value);
    for (Value operand : node.operands) check_defined(value, operand);
    const Type& type = node.type;
    const bool is_vector = type.lanes == isa_.lanes || 2 * type.lanes == isa_.lanes;
    if (type.rows < 1 || type.vectors < 1 || (type.lanes != 1 && !is_vector))
      fail(value, "is {}, where a vector has {} lanes, or half as many", to_string(type), isa_.lanes);
    switch (node.op) {
      case Op::Parameter:
        if (node.number < 0 || node.number >= std::ssize(function_.parameters))
          fail(value, "there is no such parameter");
        return;
      case Op::Integer:
      case Op::Float:
      case Op::Bits: return;
      case Op::Item: fail(value, "stands outside of its loop");
      case Op::Result: return check_result(value, node);
      case Op::Offset:
        expect_count(value, 2, 2);
        expect(value, node.operands[0], Element::Pointer);
        if (node.number != 1 && node.number != 2 && node.number != 4 && node.number != 8) fail(value, "of elements of {} bytes", node.number);
        return expect(value, node.operands[1], Element::Index);
      case Op::Load: expect_count(value, 2, 3); return check_memory(value, node, 2);
      case Op::Store:
        expect_count(value, 3, 4);
        expect_type(value, this->type(node.operands[2]));
        return check_memory(value, node, 3);
      case Op::Prefetch:
        expect_count(value, 2, 2);
        if (node.number < 0 || node.number > static_cast<int64_t>(Fetch::Write)) fail(value, "there is no such purpose");
        return check_memory(value, node, 2);
      case Op::Columns: return expect(value, node.operands[0], Element::Index);
      case Op::For: return check_loop(value, node);
      case Op::If:
        expect_count(value, 1, 1);
        expect(value, node.operands[0], Element::Mask);
        if (!this->type(node.operands[0]).is_single()) fail(value, "the condition is not single");
        block(node.blocks[0]);
        return block(node.blocks[1]);
      default: return check_elementwise(value, node);
    }
  }

  void check_memory(Value value, const Node& node, size_t mask) const {
    expect(value, node.operands[0], Element::Pointer);
    expect(value, node.operands[1], Element::Index);
    const bool is_row_of_mask = node.type.element == Element::Mask && node.type.rows == 1 && node.type.vectors == 1;
    const bool is_words = node.type.element == Element::F32 || is_integer(node.type.element);
    if (!is_words && !is_row_of_mask) fail(value, "memory holds f32, i32, i64, and single rows of masks");
    const int64_t bytes = bytes_in_memory(node);
    if (bytes == 8 && node.number != static_cast<int64_t>(InMemory::Word)) fail(value, "narrow elements of {}", to_string(node.type));
    if (bytes == 1 && node.type.element == Element::F32) fail(value, "bytes of {}", to_string(node.type));
    const bool is_narrow_load = node.op == Op::Load && node.type.element == Element::F32 && node.operands.size() <= mask;
    if (bytes == 2 && !is_narrow_load) fail(value, "half precision but in loads of f32 without a mask");
    if (node.type.lanes == 1 && node.type.vectors != 1) fail(value, "a row of single elements");
    if (node.operands.size() <= mask) return;
    expect(value, node.operands[mask], Element::Mask);
    const Type& columns = type(node.operands[mask]);
    if (columns.rows != 1 || columns.vectors != node.type.vectors || columns.lanes != node.type.lanes)
      fail(value, "the mask is {}", to_string(columns));
  }

  void check_result(Value value, const Node& node) const {
    const Node& loop = function_.node(node.operands[0]);
    if (loop.op == Op::If) return check_choice(value, node, loop);
    if (loop.op != Op::For) fail(value, "%{} has no results", node.operands[0]);
    const Block& body = function_.block(loop.blocks[0]);
    if (node.number < 0 || node.number + 1 >= std::ssize(body.items)) fail(value, "the loop carries less");
    expect_type(value, type(body.items[static_cast<size_t>(node.number) + 1]));
  }

  void check_choice(Value value, const Node& node, const Node& choice) const {
    for (int number : choice.blocks) {
      const Block& block = function_.block(number);
      if (node.number < 0 || node.number >= std::ssize(block.yields)) fail(value, "a block yields less");
      check_begin(value, block.yields[static_cast<size_t>(node.number)], node.type);
    }
  }
  // What is repeated stands for a tile.
  void check_begin(Value value, Value initial, const Type& tile) const {
    const Type& given = type(initial);
    auto fits = [](int extent, int of_tile) { return extent == of_tile || extent == 1; };
    if (given.element != tile.element || !fits(given.rows, tile.rows) || !fits(given.vectors, tile.vectors) || !fits(given.lanes, tile.lanes))
      fail(value, "%{} is {}, not {}", initial, to_string(given), to_string(tile));
  }

  void check_loop(Value value, const Node& node) {
    const Block& body = function_.block(node.blocks[0]);
    if (node.operands.size() < 2 || body.items.size() != node.operands.size() - 1 ||
        body.yields.size() + 1 != body.items.size())
      fail(value, "carries {} values, begins with {} and goes on with {}", body.items.size() - 1,
           node.operands.size() - 2, body.yields.size());
    expect(value, node.operands[0], Element::Index);
    expect(value, node.operands[1], Element::Index);
    if (node.unroll < 1) fail(value, "is unrolled {} times", node.unroll);
    block(node.blocks[0]);
    int registers = 0;
    for (size_t i = 1; i < body.items.size(); ++i) {
      const Type& carried = type(body.items[i]);
      check_begin(value, node.operands[i + 1], carried);
      if (type(body.yields[i - 1]) != carried)
        fail(value, "%{} goes on as {}", body.items[i], to_string(type(body.yields[i - 1])));
      registers += carried.registers();
    }
    if (registers >= isa_.registers) fail(value, "carries {} vectors, in {} registers", registers, isa_.registers);
  }

  void check_elementwise(Value value, const Node& node) const {
    const bool has_mask = node.op == Op::Select;
    expect_count(value, 1, 3);
    Type result = type(node.operands[has_mask ? 1 : 0]);
    if (has_mask) expect(value, node.operands[0], Element::Mask);
    for (size_t i = has_mask ? 1 : 0; i < node.operands.size(); ++i) expect(value, node.operands[i], result.element);
    for (Value operand : node.operands) result = repeated(result, type(operand));
    const Element element = result.element;
    switch (node.op) {
      case Op::And:
      case Op::Or:
      case Op::Xor:
        if (element != Element::I32 && element != Element::Mask) fail(value, "of {}", to_string(result));
        break;
      case Op::ShiftLeft:
      case Op::ShiftRight:
        if (element != Element::I32) fail(value, "of {}", to_string(result));
        break;
      case Op::Divide: {
        const Node& divisor = function_.node(node.operands[1]);
        const bool is_by_constant = element == Element::Index && divisor.op == Op::Integer && divisor.number > 0;
        if (element != Element::F32 && !is_by_constant) fail(value, "of {}", to_string(result));
        break;
      }
      case Op::Fma:
        if (element != Element::F32) fail(value, "of {}", to_string(result));
        if (node.op == Op::Fma && !isa_.has_fma) fail(value, "{} has no such instruction", isa_.name);
        break;
      case Op::LessOrEqual:
      case Op::Equal:
        if (element != Element::F32 && !is_integer(element)) fail(value, "of {}", to_string(result));
        result.element = Element::Mask;
        break;
      case Op::SquareRoot:
        if (element != Element::F32) fail(value, "of {}", to_string(result));
        break;
      case Op::Transpose:
        if (result != Type{Element::F32, isa_.lanes, 1, isa_.lanes}) fail(value, "of {}", to_string(result));
        break;
      case Op::SumOfLanes:
      case Op::LargestOfLanes:
      case Op::SmallestOfLanes:
        if (result == Type{Element::F32, isa_.lanes, 1, isa_.lanes}) {
          result.rows = 1;
          break;
        }
        if (result != Type{Element::F32, 1, 1, isa_.lanes}) fail(value, "of {}", to_string(result));
        result.lanes = 1;
        break;
      case Op::AnyOfLanes:
        if (result != Type{Element::Mask, 1, 1, isa_.lanes}) fail(value, "of {}", to_string(result));
        result.lanes = 1;
        break;
      case Op::Less: result.element = Element::Mask; break;
      case Op::AsBits: result.element = Element::I32; break;
      case Op::AsFloat: result.element = Element::F32; break;
      case Op::ToInteger:
        if ((element != Element::F32 && !is_integer(element)) || !is_integer(node.type.element)) fail(value, "of {}", to_string(result));
        result.element = node.type.element;
        break;
      case Op::ToNearest:
        if (element != Element::F32) fail(value, "of {}", to_string(result));
        result.element = Element::I32;
        break;
      case Op::ToFloat:
        if (!is_integer(element)) fail(value, "of {}", to_string(result));
        result.element = Element::F32;
        break;
      case Op::DotBytes:
      case Op::DotHalves:
        if (element != Element::I32) fail(value, "of {}", to_string(result));
        break;
      default: break;
    }
    if (node.op == Op::Select && node.type.element == Element::Mask) fail(value, "of masks");
    expect_type(value, result);
  }

  const Function& function_;
  const IsaDescription& isa_;
  std::vector<bool> defined_;
};

}  // namespace

void verify(const Function& function, const IsaDescription& isa) { Verifier(function, isa).verify(); }

}  // namespace anfora::codegen
