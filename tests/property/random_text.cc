#include "property/random_text.h"

#include <array>

#include "support/element_types.h"

namespace anfora::property {

using namespace ir;

namespace {

constexpr int kDeepestType = 3;

// The bits of one element; types narrower than their memory have patterns that no element has.
void fill_randomly(Tensor& t, Choices& choices) {
  if (t.dtype() == DType::String) {
    for (std::string& s : t.data<std::string>()) s = random_string(choices);
    return;
  }
  int bits = t.dtype() == DType::Bool ? 1 : is_sub_byte(t.dtype()) ? element_bits(t.dtype()) : 8;
  auto* bytes = static_cast<uint8_t*>(t.raw());
  for (size_t i = 0; i < t.bytes(); ++i) {
    int drawn = choices.byte() & ((1 << bits) - 1);
    bool negative = bits < 8 && is_signed_integer(t.dtype()) && drawn >> (bits - 1);
    bytes[i] = static_cast<uint8_t>(negative ? drawn - (1 << bits) : drawn);
  }
}

Dim dim_of_depth(Context& context, Choices& choices, int depth) {
  auto operand = [&] { return dim_of_depth(context, choices, depth - 1); };
  switch (choices.below(depth > 0 ? 11 : 3)) {
    case 0: return context.dims().constant(choices.between(0, 9));
    case 1: return context.dims().symbol(std::array{"N", "M", "K", "seq len", "_3_0"}[choices.below(5)]);
    case 2: return context.dims().constant(choices.between(-200, 50000) * (int64_t{1} << choices.below(48)));
    case 3: return context.dims().unknown();
    case 4: return operand() + operand();
    case 5: return operand() - operand();
    case 6: return operand() * operand();
    case 7: return floor_div(operand(), operand());
    case 8: return ceil_div(operand(), operand());
    case 9: return mod(operand(), operand());
    default: return choices.once_in(2) ? min(operand(), operand()) : max(operand(), operand());
  }
}

const Type* type_of_depth(Context& context, Choices& choices, int depth) {
  auto element = [&] { return type_of_depth(context, choices, depth - 1); };
  auto elements = [&] {
    std::vector<const Type*> types;
    for (size_t count = choices.below(4); count > 0; --count) types.push_back(element());
    return types;
  };
  DType dtype = static_cast<DType>(choices.below(kDTypeCount));
  switch (choices.below(depth > 0 ? 10 : 4)) {
    case 0:
    case 1: {
      std::vector<Dim> dims;
      for (size_t rank = choices.below(4); rank > 0; --rank) {
        Dim dim = random_dim(context, choices);
        dims.push_back(dim.as_constant().value_or(0) < 0 ? dim * -1 : dim);  // a shape has no negative dimension
      }
      return context.tensor_type(dtype, std::span<const Dim>(dims));
    }
    case 2: return context.unranked_type(dtype);
    case 3: return choices.once_in(2) ? context.none_type() : context.state_type();
    case 4: return context.sequence_type(element());
    case 5: return context.optional_type(element());
    case 6: return context.map_type(element(), element());
    case 7: return context.func_type(elements(), element());
    default: return context.tuple_type(elements());
  }
}

// Adds nodes to one graph.
class Odd {
 public:
  Odd(Module& module, Choices& choices) : module_(module), choices_(choices) {}

  void run() {
    collect();
    for (size_t count = choices_.below(4); count > 0; --count) add_graph();
    for (size_t count = choices_.below(8); count > 0; --count) add_node();
    for (Node* node : nodes_) label(*node);
    metadata();
  }

 private:
  void collect() {
    for (Graph* graph : module_.graphs()) {
      for (Parameter* p : graph->parameters()) nodes_.push_back(p);
      for (Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
        if (node != graph->return_node()) nodes_.push_back(node);
      }
      nodes_.push_back(graph->value());
    }
    for (Value* value : module_.constants()) nodes_.push_back(value);
    nodes_.push_back(module_.none());
  }

  void add_graph() {
    Graph* parent = choices_.once_in(2) && !module_.graphs().empty() ? choices_.of(module_.graphs()) : nullptr;
    Graph* graph = module_.make_graph(random_string(choices_), parent);
    for (size_t count = choices_.below(4); count > 0; --count) {
      nodes_.push_back(module_.add_parameter(graph, maybe_type(), {}));
      if (choices_.once_in(3))
        module_.set_default(nodes_.back()->as_parameter(), module_.constant(random_bits(choices_)));
    }
    nodes_.push_back(graph->value());
    if (!choices_.once_in(4)) module_.set_result(graph, any_node());
  }

  void add_node() {
    if (module_.graphs().empty()) return;
    Graph* graph = choices_.of(module_.graphs());
    if (choices_.once_in(3)) nodes_.push_back(module_.constant(random_bits(choices_)));
    std::vector<Node*> operands;
    for (size_t count = choices_.below(4); count > 0; --count) operands.push_back(any_node());
    Apply* node = module_.apply(graph, any_operator(), std::span<Node* const>(operands), random_attributes(choices_),
                                choices_.below(4));
    node->set_type(maybe_type());
    nodes_.push_back(node);
  }

  const Operator& any_operator() {
    Context& context = module_.context();
    if (choices_.once_in(2)) return *choices_.of(context.operators());
    return *context.operator_or_unknown(choices_.once_in(2) ? random_string(choices_) : "", random_string(choices_));
  }

  Node* any_node() { return choices_.of(nodes_); }
  const Type* maybe_type() { return choices_.once_in(2) ? random_type(module_.context(), choices_) : nullptr; }

  void label(Node& node) {
    if (choices_.once_in(3) && !(node.as_value() && !node.as_value()->is_tensor()))
      module_.set_name(&node, random_string(choices_));
    if (!choices_.once_in(4)) return;
    const Location* call = nullptr;
    while (choices_.once_in(3)) call = module_.inlined(random_location(), call ? call : random_location());
    node.set_location(module_.inlined(random_location(), call));
  }

  const Location* random_location() {
    const std::string file = random_string(choices_), name = random_string(choices_);
    auto number = [&] { return static_cast<int32_t>(choices_.below(1000)); };
    Location location{.file = file, .name = name};
    if (choices_.once_in(2)) {
      location.index = number();
    } else if (choices_.once_in(2)) {
      location.line = 1 + number();
      location.column = choices_.once_in(2) ? 1 + number() : 0;
    }
    return module_.location(location);
  }

  void metadata() {
    Metadata& m = module_.metadata();
    for (std::string* text : {&m.producer, &m.producer_version, &m.domain, &m.doc, &m.graph_name, &m.graph_doc}) {
      if (choices_.once_in(3)) *text = random_string(choices_);
    }
    m.model_version = choices_.between(0, 3);
    m.ir_version = choices_.between(0, 12);
    for (size_t count = choices_.below(3); count > 0; --count)
      m.opsets[random_string(choices_)] = choices_.between(-1, 30);
    for (size_t count = choices_.below(3); count > 0; --count)
      m.properties.emplace_back(random_string(choices_), random_string(choices_));
    for (size_t count = choices_.below(3); count > 0; --count)
      module_.output_names().push_back(random_string(choices_));
    if (choices_.once_in(4))
      module_.set_main(choices_.once_in(2) || module_.graphs().empty() ? nullptr : choices_.of(module_.graphs()));
  }

  Module& module_;
  Choices& choices_;
  std::vector<Node*> nodes_;
};

}  // namespace

std::string random_string(Choices& choices) {
  static constexpr std::string_view kPieces[] = {"x",
                                                 "a",
                                                 "7",
                                                 "_",
                                                 ".",
                                                 "-",
                                                 "/",
                                                 ":",
                                                 "::",
                                                 "->",
                                                 "#",
                                                 "%",
                                                 "@",
                                                 "\"",
                                                 "'",
                                                 "\\",
                                                 " ",
                                                 "\n",
                                                 "\t",
                                                 "\r",
                                                 "(",
                                                 ")",
                                                 "[",
                                                 "]",
                                                 "{",
                                                 "}",
                                                 "<#",
                                                 ",",
                                                 "=",
                                                 "é",
                                                 "\xff",
                                                 "\xc3",
                                                 "call",
                                                 "graph",
                                                 "return",
                                                 "const",
                                                 "in",
                                                 "as",
                                                 "nan",
                                                 "inf",
                                                 "true",
                                                 "f32",
                                                 "any",
                                                 "none",
                                                 "node 3",
                                                 "ai.onnx",
                                                 "main",
                                                 std::string_view("\0", 1),
                                                 "\xf0\x9f\x98\x80",
                                                 ": node ",
                                                 "e5",
                                                 "0x1"};
  std::string text;
  size_t count = choices.below(4);
  for (size_t i = 0; i < count; ++i) text += choices.of(kPieces);
  return text;
}

Dim random_dim(Context& context, Choices& choices) { return dim_of_depth(context, choices, 3); }

const Type* random_type(Context& context, Choices& choices) { return type_of_depth(context, choices, kDeepestType); }

Tensor random_bits(Choices& choices) {
  Shape shape;
  for (size_t rank = choices.below(4); rank > 0; --rank) shape.push_back(choices.between(0, 4));
  if (choices.once_in(16)) shape = {choices.between(65, 300)};
  Tensor t = Tensor::allocate(static_cast<DType>(choices.between(1, kDTypeCount - 1)), shape);
  fill_randomly(t, choices);
  return t;
}

AttributeSet random_attributes(Choices& choices) {
  std::vector<AttributeSet::Entry> entries;
  auto number = [&] {
    return std::bit_cast<float>(static_cast<uint32_t>(choices.below(65536) << 16 | choices.below(65536)));
  };
  auto list = [&](auto item) {
    std::vector<decltype(item())> items;
    for (size_t count = choices.below(4); count > 0; --count) items.push_back(item());
    return items;
  };
  auto integer = [&] { return choices.between(-3, 3) * (int64_t{1} << choices.below(60)); };
  auto text = [&] { return random_string(choices); };
  auto tensor = [&] { return choices.once_in(8) ? Tensor() : random_bits(choices); };
  for (size_t count = choices.below(4); count > 0; --count) {
    std::string name = random_string(choices);
    bool known = false;
    for (const auto& entry : entries) known = known || entry.first == name;
    if (known) continue;
    auto value = [&]() -> AttributeValue {
      switch (choices.below(8)) {
        case 0: return integer();
        case 1: return number();
        case 2: return text();
        case 3: return tensor();
        case 4: return list(integer);
        case 5: return list(number);
        case 6: return list(text);
        default: return list(tensor);
      }
    };
    entries.emplace_back(std::move(name), value());
  }
  return AttributeSet(std::move(entries));
}

void add_oddities(Module& module, Choices& choices) { Odd(module, choices).run(); }

}  // namespace anfora::property
