// The printed form of the loop IR.
#include <fmt/format.h>

#include <iterator>

#include "codegen/loop_ir.h"

namespace anfora::codegen {

std::string_view name(Op op) {
  switch (op) {
    case Op::Parameter: return "parameter";
    case Op::Integer: return "integer";
    case Op::Float: return "float";
    case Op::Bits: return "bits";
    case Op::Item: return "item";
    case Op::Result: return "result";
    case Op::Offset: return "offset";
    case Op::Load: return "load";
    case Op::Store: return "store";
    case Op::Prefetch: return "prefetch";
    case Op::Columns: return "columns";
    case Op::Add: return "add";
    case Op::Subtract: return "subtract";
    case Op::Multiply: return "multiply";
    case Op::Divide: return "divide";
    case Op::Minimum: return "minimum";
    case Op::Maximum: return "maximum";
    case Op::Fma: return "fma";
    case Op::DotBytes: return "dot_bytes";
    case Op::DotHalves: return "dot_halves";
    case Op::Less: return "less";
    case Op::LessOrEqual: return "less_or_equal";
    case Op::Equal: return "equal";
    case Op::SquareRoot: return "square_root";
    case Op::Transpose: return "transpose";
    case Op::SumOfLanes: return "sum_of_lanes";
    case Op::LargestOfLanes: return "largest_of_lanes";
    case Op::SmallestOfLanes: return "smallest_of_lanes";
    case Op::AnyOfLanes: return "any_of_lanes";
    case Op::Select: return "select";
    case Op::And: return "and";
    case Op::Or: return "or";
    case Op::Xor: return "xor";
    case Op::ShiftLeft: return "shift_left";
    case Op::ShiftRight: return "shift_right";
    case Op::AsBits: return "as_bits";
    case Op::AsFloat: return "as_float";
    case Op::ToFloat: return "to_float";
    case Op::ToNearest: return "to_nearest";
    case Op::ToInteger: return "to_integer";
    case Op::For: return "for";
    case Op::If: return "if";
  }
  return "?";
}

namespace {

std::string_view name(Element element) {
  switch (element) {
    case Element::Index: return "index";
    case Element::Pointer: return "pointer";
    case Element::F32: return "f32";
    case Element::I32: return "i32";
    case Element::I64: return "i64";
    case Element::Mask: return "mask";
  }
  return "?";
}

class Printer {
 public:
  explicit Printer(const Function& function) : function_(function) {}

  std::string print() {
    line("function {}({}) {{", function_.name, fmt::join(parameters(), ", "));
    block(0);
    line("}}");
    return std::move(text_);
  }

 private:
  template <class... Arguments>
  void line(fmt::format_string<Arguments...> form, Arguments&&... arguments) {
    text_.append(static_cast<size_t>(indentation_), ' ');
    fmt::format_to(std::back_inserter(text_), form, std::forward<Arguments>(arguments)...);
    text_ += '\n';
  }

  std::vector<std::string> parameters() const {
    std::vector<std::string> all;
    for (const Parameter& parameter : function_.parameters) {
      all.push_back(fmt::format("%{}: {}", parameter.name, name(parameter.element)));
    }
    return all;
  }

  // Constants are written where they are used.
  std::string use(Value value) const {
    const Node& node = function_.node(value);
    switch (node.op) {
      case Op::Parameter: return "%" + function_.parameters[static_cast<size_t>(node.number)].name;
      case Op::Integer: return fmt::format("{}", node.number);
      case Op::Bits:
        return node.type.element == Element::I64 ? fmt::format("{}l", node.number)
                                                 : fmt::format("{:#x}", static_cast<uint32_t>(node.number));
      case Op::Float: return fmt::format("{}f", node.scalar);
      case Op::Result: return fmt::format("%{}.{}", node.operands[0], node.number);
      default: return fmt::format("%{}", value);
    }
  }
  std::vector<std::string> uses(std::span<const Value> values) const {
    std::vector<std::string> all;
    for (Value value : values) all.push_back(use(value));
    return all;
  }
  static std::string_view in_memory(const Node& node) {
    switch (static_cast<InMemory>(node.number)) {
      case InMemory::Word: return "";
      case InMemory::UnsignedByte: return "u8 ";
      case InMemory::SignedByte: return "i8 ";
      case InMemory::Half: return "f16 ";
      case InMemory::BFloat: return "bf16 ";
    }
    return "? ";
  }
  static std::string_view purpose(const Node& prefetch) {
    switch (static_cast<Fetch>(prefetch.number)) {
      case Fetch::Later: return " later";
      case Fetch::Read: return "";
      case Fetch::Write: return " to write";
    }
    return " ?";
  }
  std::string masked(const Node& node, size_t mask) const {
    return node.operands.size() > mask ? " mask " + use(node.operands[mask]) : "";
  }

  void block(int number) {
    indentation_ += 2;
    for (Value value : function_.block(number).nodes) print(value);
    const Block& block = function_.block(number);
    if (!block.yields.empty()) line("yield {}", fmt::join(uses(block.yields), ", "));
    indentation_ -= 2;
  }

  void print(Value value) {
    const Node& node = function_.node(value);
    switch (node.op) {
      case Op::Parameter:
      case Op::Integer:
      case Op::Bits:
      case Op::Float:
      case Op::Item:
      case Op::Result: return;
      case Op::Offset:
        return line("%{} = offset {}, {}{} : pointer", value, use(node.operands[0]), use(node.operands[1]),
                    node.number == 1 ? " bytes" : node.number == 8 ? " longs" : "");
      case Op::Load:
        return line("%{} = load {} {}{} rows {}{}", value, to_string(node.type), in_memory(node), use(node.operands[0]),
                    use(node.operands[1]), masked(node, 2));
      case Op::Store:
        return line("store {}{} rows {}, {}{}", in_memory(node), use(node.operands[0]), use(node.operands[1]), use(node.operands[2]),
                    masked(node, 3));
      case Op::Prefetch:
        return line("prefetch{} {} {} rows {}", purpose(node), to_string(node.type), use(node.operands[0]), use(node.operands[1]));
      case Op::For: return print_loop(value, node);
      case Op::If:
        line("{}if {} {{", function_.block(node.blocks[0]).yields.empty() ? "" : fmt::format("%{} = ", value),
             use(node.operands[0]));
        block(node.blocks[0]);
        line("}} else {{");
        block(node.blocks[1]);
        return line("}}");
      default:
        return line("%{} = {} {} : {}", value, codegen::name(node.op), fmt::join(uses(node.operands), ", "),
                    to_string(node.type));
    }
  }

  void print_loop(Value value, const Node& node) {
    const Block& body = function_.block(node.blocks[0]);
    std::vector<std::string> carried;
    for (size_t i = 1; i < body.items.size(); ++i) {
      carried.push_back(fmt::format("{}: {} = {}", use(body.items[i]), to_string(function_.node(body.items[i]).type),
                                    use(node.operands[i + 1])));
    }
    std::string head = carried.empty() ? "" : fmt::format("%{} = ", value);
    fmt::format_to(std::back_inserter(head), "for {} = {} to {}", use(body.items[0]), use(node.operands[0]),
                   use(node.operands[1]));
    if (node.unroll > 1) fmt::format_to(std::back_inserter(head), " unroll {}", node.unroll);
    if (!carried.empty()) fmt::format_to(std::back_inserter(head), " carry ({})", fmt::join(carried, ", "));
    line("{} {{", head);
    block(node.blocks[0]);
    line("}}");
  }

  const Function& function_;
  std::string text_;
  int indentation_ = 0;
};

}  // namespace

std::string to_string(const Type& type) {
  return type.is_single() ? std::string(name(type.element))
                          : fmt::format("{}[{}x{}x{}]", name(type.element), type.rows, type.vectors, type.lanes);
}

std::string to_string(const Function& function) { return Printer(function).print(); }

}  // namespace anfora::codegen
