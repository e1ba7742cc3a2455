// Modules, graphs and statements.
//
// A label may be used before its definition and a graph before its text. Where an operand is not known yet, the
// application is made with a placeholder and the operand is noted; when all text is read, one walk over the tree of
// graphs, with the labels of the enclosing graphs in scope, fills them in:
//
//     read:      %2 = Relu(%1)        ->  Relu(none), "operand 0 is %1"
//     resolve:   scope of @main: {%1, %2};  scope of @pos in @main: {%1, %2} + its own
#include "ir/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <deque>
#include <ranges>

#include "ir/builder.h"
#include "ir/lexical.h"
#include "ir/library.h"
#include "ir/notes.h"
#include "ir/parse_grammar.h"
#include "support/hash.h"
#include "support/nearest.h"

namespace anfora::ir {
namespace {

// Ids index side tables, so a text may not choose them as large as it likes. Beyond this, a number is a label only.
constexpr int64_t kHighestId = (int64_t{1} << 24) - 1;

struct Label {
  std::string name;     // empty: a number alone
  int64_t number = -1;  // −1: a name alone
  friend bool operator==(const Label&, const Label&) = default;
};
struct LabelHash {
  size_t operator()(const Label& l) const {
    return hash_combine(hash_bytes(l.name.data(), l.name.size()), static_cast<uint64_t>(l.number));
  }
};
template <class T>
using LabelMap = boost::unordered_flat_map<Label, T, LabelHash>;

// An operand that was not known when it was read.
struct Reference {
  Label label;
  std::optional<std::string> graph;  // of "@graph": the function itself; of "@graph%label": where the label is defined
  bool is_function = false;
  size_t position = 0;
  Apply* user = nullptr;
  size_t operand = 0;
};

struct GraphText {
  Graph* graph = nullptr;
  std::string parent;
  size_t parent_position = 0;  // 0: none was given
  bool has_parent() const { return parent_position != 0; }
  bool resolved = false;
  const Type* result_type = nullptr;
  LabelMap<Node*> labels;
  std::vector<Reference> references;
  std::vector<size_t> children;
};

struct Operands {
  boost::container::small_vector<Node*, 8> nodes;
  std::vector<Reference> unknown;
};

// "fc (model.onnx: node 3)"
std::optional<ParsedLocation> parse_plain_location(std::string_view comment) {
  constexpr std::string_view kNode = ": node ";
  size_t open = comment.find('('), node = comment.rfind(kNode);
  bool is_one = open != std::string_view::npos && node != std::string_view::npos && node > open &&
                comment.ends_with(')') && (open == 0 || comment[open - 1] == ' ') &&
                comment.find_first_of("()", open + 1) == comment.size() - 1;
  if (!is_one) return std::nullopt;
  std::string_view index = comment.substr(node + kNode.size(), comment.size() - 1 - node - kNode.size());
  bool digits =
      !index.empty() && index.size() < 10 && std::ranges::all_of(index, [](char c) { return c >= '0' && c <= '9'; });
  if (!digits) return std::nullopt;
  ParsedLocation location;
  if (open > 0) location.name = comment.substr(0, open - 1);
  location.file = comment.substr(open + 1, node - open - 1);
  location.index = std::stoi(std::string(index));
  return location;
}

// A location and the calls that it was inlined at, from the inside: "fc (layer: node 3) inlined at layer0 (model.onnx: node 7)" or,
// with quotes, "\"fc\" (\"layer\": node 3) inlined at …". Anything else is only a comment: nothing.
std::vector<ParsedLocation> parse_location(std::string_view comment) {
  std::vector<ParsedLocation> chain;
  if (!comment.starts_with(' ')) return {};
  comment.remove_prefix(1);
  if (comment.starts_with('"')) try {
      Cursor cursor(comment, {});
      do {
        chain.push_back(parse_quoted_location(cursor));
      } while (cursor.accept_word("inlined") && cursor.accept_word("at"));
      if (!cursor.at_end()) return {};
      return chain;
    } catch (const Error&) {
      return {};
    }
  while (true) {
    const size_t end = comment.find(kInlinedAt);
    auto location = parse_plain_location(comment.substr(0, end));
    if (!location) return {};
    chain.push_back(std::move(*location));
    if (end == std::string_view::npos) return chain;
    comment.remove_prefix(end + kInlinedAt.size());
  }
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  std::string_view nearest = nearest_name(name, candidates);
  return nearest.empty() ? std::string() : fmt::format("did you mean '{}'?", nearest);
}

class ModuleParser {
 public:
  ModuleParser(Context& context, std::string_view text, const ParseOptions& options)
      : context_(context),
        options_(options),
        text_(text),
        cursor_(text, options.file),
        types_(context, cursor_),
        literals_(context, cursor_, options.sidecar),
        module_(std::make_unique<Module>(context)) {}

  std::unique_ptr<Module> parse() {
    if (cursor_.accept_word("module")) header();
    while (!cursor_.at_end()) {
      if (cursor_.accept_word("notes")) {
        notes();
        break;
      }
      if (!cursor_.accept_word("graph"))
        cursor_.fail_expected("'graph'", "a text is a list of graphs: graph @main(%x) { return %x }");
      graph();
    }
    resolve();
    choose_main();
    for (const GraphText& g : graphs_) {
      if (g.graph->return_node()) g.graph->return_node()->set_type(g.result_type);
    }
    if (!ids_.empty()) module_->renumber(ids_);
    return std::move(module_);
  }

 private:
  // Header -----------------------------------------------------------------------------------------

  void header() {
    static constexpr std::string_view kKeys[] = {
        "name",          "graph_doc", "opset",    "ir_version",     "producer", "producer_version", "domain",
        "model_version", "doc",       "property", "graph_property", "main",     "outputs",          "symbol"};
    cursor_.expect("{", "after 'module'");
    while (!cursor_.accept("}")) {
      std::string_view key = cursor_.peek_word();
      if (!std::ranges::count(kKeys, key)) {
        cursor_.fail_expected("a property of the module or '}'",
                              did_you_mean(key, {std::begin(kKeys), std::end(kKeys)}));
      }
      cursor_.advance(key.size());
      entry(key);
    }
  }

  void entry(std::string_view key) {
    Metadata& m = module_->metadata();
    if (key == "symbol") return symbol();
    std::string qualifier;
    if (key == "opset") qualifier = cursor_.string("a domain in quotes");
    bool is_property = key == "property" || key == "graph_property";
    if (is_property) qualifier = cursor_.string("a key in quotes");
    cursor_.expect("=", "after a property's name");
    if (key == "opset") {
      m.opsets[qualifier] = cursor_.integer("a version");
    } else if (is_property) {
      auto& properties = key == "property" ? m.properties : m.graph_properties;
      properties.emplace_back(std::move(qualifier), cursor_.string("a text in quotes"));
    } else if (key == "ir_version") {
      m.ir_version = cursor_.integer("a version");
    } else if (key == "model_version") {
      m.model_version = cursor_.integer("a version");
    } else if (key == "main") {
      main_position_ = cursor_.position();
      main_given_ = true;
      if (!cursor_.accept("_")) main_ = function_name();
    } else if (key == "outputs") {
      cursor_.expect("[", "before the names");
      while (!cursor_.accept("]")) {
        if (!module_->output_names().empty()) cursor_.expect(",", "or ']' after a name");
        module_->output_names().push_back(cursor_.string("a name in quotes"));
        m.output_types.push_back(cursor_.accept(":") ? types_.type() : nullptr);
      }
    } else {
      std::string text = cursor_.string("a text in quotes");
      (key == "name"        ? m.graph_name
       : key == "graph_doc" ? m.graph_doc
       : key == "producer"  ? m.producer
       : key == "domain"    ? m.domain
       : key == "doc"       ? m.doc
                            : m.producer_version) = std::move(text);
    }
  }

  // symbol N = [1, 64]
  void symbol() {
    cursor_.skip_space();
    size_t start = cursor_.position();
    auto bound = [&]() -> int64_t {
      NumberToken token = cursor_.number("a bound");
      if (token.text == "inf") return Range::kHighest;
      if (token.text == "-inf") return Range::kLowest;
      if (!token.is_integer()) cursor_.fail_at(token.position, "a bound is an integer, inf or -inf");
      return std::clamp(cursor_.to_integer(token), Range::kLowest, Range::kHighest);
    };
    // The range is fixed when a symbol is first made: read the name without making it.
    std::string name = types_.symbol_name();
    cursor_.expect("=", "after a symbol");
    cursor_.expect("[", "before a range");
    Range range;
    range.low = bound();
    cursor_.expect(",", "between the bounds");
    range.high = bound();
    cursor_.expect("]", "after a range");
    if (range.low > range.high) cursor_.fail_at(start, "the range of a symbol is empty");
    if (context_.dims().symbol(name, range).range() != range) {
      cursor_.fail_at(start, fmt::format("symbol '{}' has another range in this context", name));
    }
  }

  void notes() {
    parse_notes(cursor_, literals_, *module_, [this] {
      cursor_.skip_space();
      size_t start = cursor_.position();
      return graphs_[find_graph(function_name(), start)].graph;
    });
    if (!cursor_.at_end()) cursor_.fail_expected("the end of the text", "the notes come last");
  }

  // Graphs -----------------------------------------------------------------------------------------

  std::string function_name() {
    cursor_.expect("@", "before the name of a graph");
    return cursor_.label("the name of a graph");
  }

  void graph() {
    cursor_.skip_space();
    size_t start = cursor_.position();
    std::string name = function_name();
    auto [at, is_new] = graph_index_.emplace(name, graphs_.size());
    if (!is_new) cursor_.fail_at(start, fmt::format("graph @{} is defined twice", name));
    current_ = &graphs_.emplace_back();
    current_->graph = module_->make_graph(name);
    parameters();
    if (cursor_.accept_word("in")) {
      cursor_.skip_space();
      current_->parent_position = cursor_.position();
      current_->parent = function_name();
    }
    if (cursor_.accept("->")) current_->result_type = types_.type();
    cursor_.expect("{", "before the body of a graph");
    while (!cursor_.accept("}")) statement();
  }

  void parameters() {
    cursor_.expect("(", "before the parameters");
    while (!cursor_.accept(")")) {
      if (!current_->graph->parameters().empty() && !separated_) cursor_.fail_expected("',' or ')' after a parameter");
      cursor_.expect("%", "before the name of a parameter");
      size_t start = cursor_.position();
      Label l = label();
      size_t end = cursor_.position();
      const Type* type = nullptr;
      if (cursor_.accept(":")) {
        type = types_.type();
        end = cursor_.position();
      }
      Parameter* parameter = module_->add_parameter(current_->graph, type, l.name);
      define(std::move(l), parameter, start);
      if (cursor_.accept_word("donated")) {
        parameter->set_donated(true);
        end = cursor_.position();
      }
      if (cursor_.accept("=")) {
        default_value(parameter);
        end = cursor_.position();
      }
      separated_ = cursor_.accept(",");
      if (separated_) end = cursor_.position();
      cursor_.rewind(end);
      Node* node = parameter;
      locate(start, {&node, 1});
    }
  }

  void default_value(Parameter* parameter) {
    Value* value = constant(literals_.literal(), cursor_.position());
    size_t end = cursor_.position();
    if (cursor_.accept_word("as")) {
      std::string name = cursor_.string("the name of the constant in quotes");
      if (value->name().empty()) module_->set_name(value, name);
    } else {
      cursor_.rewind(end);
    }
    module_->set_default(parameter, value);
  }

  void statement() {
    cursor_.skip_space();
    size_t start = cursor_.position();
    made_.clear();
    if (cursor_.accept_word("return")) {
      if (current_->graph->return_node()) cursor_.fail_at(start, "a graph has one return");
      Operands operands;
      operand(operands);
      module_->set_result(current_->graph, operands.nodes[0]);
      remember(operands, current_->graph->return_node());
      made_.push_back(current_->graph->return_node());
    } else {
      cursor_.expect("%", "or 'return' or '}' in the body of a graph");
      Label l = label();
      cursor_.expect("=", "after the label of a node");
      Node* node = expression(l.name);
      size_t end = cursor_.position();
      if (!node->is_value() && cursor_.accept(":")) {
        node->set_type(types_.type());
      } else {
        cursor_.rewind(end);
      }
      if (node->name().empty() && !l.name.empty()) module_->set_name(node, l.name);
      define(std::move(l), node, start);
    }
    locate(start, made_);
  }

  // The location of a node follows its line as a comment.
  void locate(size_t start, std::span<Node* const> nodes) {
    const Location* location = nullptr;
    if (auto comment = cursor_.line_comment()) {
      for (const ParsedLocation& l : parse_location(*comment) | std::views::reverse) {
        const Location* written = module_->location(l.view());
        location = location ? module_->inlined(written, location) : written;
      }
    }
    if (!location && options_.locate) {
      line_ += static_cast<size_t>(std::ranges::count(text_.substr(counted_, start - counted_), '\n'));
      counted_ = start;
      const std::string_view file = options_.file.empty() ? "text" : options_.file;
      location = module_->location({.file = file, .line = static_cast<int32_t>(line_)});
    }
    if (!location) return;
    for (Node* node : nodes) node->set_location(location);
  }

  // Expressions ------------------------------------------------------------------------------------

  // What stands to the right of "=": an application or a constant.
  Node* expression(std::string_view name) {
    if (cursor_.accept_word("const")) {
      cursor_.skip_space();
      size_t start = cursor_.position();
      Value* value = constant(literals_.literal(), start, name);
      made_.push_back(value);
      return value;
    }
    cursor_.skip_space();
    size_t start = cursor_.position();
    Operands single;
    operand(single);
    Node* node = single.nodes[0];
    bool fresh = !made_.empty() && made_.back() == node;
    if (constant_tensor(node)) {
      made_.push_back(node);
    } else if (!single.unknown.empty() || !fresh) {
      cursor_.fail_at(start, "expected an application or a constant",
                      "a label is defined by Operator(%a, %b), call @f(%a), %tuple[0], (%a, %b) or const");
    }
    return node;
  }

  // One operand is added to `operands`, with a note when it is not known yet.
  void operand(Operands& operands) {
    NestingScope nesting(depth_, cursor_);
    char c = cursor_.peek();
    size_t start = cursor_.position();
    if (c == '%' || c == '@') {
      reference(operands);
    } else if (c == '$') {
      cursor_.advance(1);
      Operands none;
      AttributeSet name{{"name", cursor_.identifier("the name of an attribute")}};
      operands.nodes.push_back(make(context_.get_operator(kAttributeOf), none, name, 1));
    } else if (c == '(') {
      cursor_.advance(1);
      operands.nodes.push_back(tuple());
    } else if (cursor_.accept_word("_")) {
      operands.nodes.push_back(module_->none());
    } else if (cursor_.accept_word("type")) {
      operands.nodes.push_back(module_->type(types_.type()));
    } else if (cursor_.accept_word("call")) {
      Operands inputs;
      operand(inputs);
      cursor_.expect("(", "before the arguments of a call");
      list(inputs, ")");
      operands.nodes.push_back(make(context_.primitive(Primitive::Call), inputs, {}, 1));
    } else if (cursor_.accept_word("if")) {
      operands.nodes.push_back(choice());
    } else if (cursor_.accept_word("unreachable")) {
      Operands none;
      AttributeSet reason{{"reason", cursor_.string("the reason in quotes")}};
      operands.nodes.push_back(make(context_.get_operator(kUnreachable), none, reason, 1));
    } else if (is_qualified_in_quotes() || !literals_.at_literal()) {
      operands.nodes.push_back(application());
    } else {
      operands.nodes.push_back(constant(literals_.literal(), start));
    }
  }

  // %label, @graph, @graph%label, and items of them: %label[0].
  void reference(Operands& operands) {
    Reference r;
    r.position = cursor_.position();
    r.operand = operands.nodes.size();
    if (cursor_.accept("@")) {
      r.graph = cursor_.label("the name of a graph");
      r.is_function = !cursor_.rest().starts_with('%');
    }
    Node* node = nullptr;
    if (!r.is_function) {
      cursor_.expect("%", "before a label");
      r.label = label();
      auto found = current_->labels.find(r.label);
      if (!r.graph && found != current_->labels.end()) node = found->second;
    } else if (auto found = graph_index_.find(*r.graph); found != graph_index_.end()) {
      node = graphs_[found->second].graph->value();
    }
    Operands tuple;
    Operands& target = cursor_.rest().starts_with('[') ? tuple : operands;
    if (&target == &tuple) r.operand = 0;
    if (!node) target.unknown.push_back(std::move(r));
    target.nodes.push_back(node ? node : module_->none());
    if (&target == &operands) return;
    cursor_.expect("[", "before an index");
    int64_t index = cursor_.integer("the index of a tuple's item");
    cursor_.expect("]", "after an index");
    operands.nodes.push_back(make(context_.primitive(Primitive::TupleGetItem), tuple, {{"index", index}}, 1));
    if (cursor_.rest().starts_with('[')) cursor_.fail("an item of an item needs a label of its own");
  }

  Node* tuple() {
    Operands items;
    if (!cursor_.accept(")")) {
      operand(items);
      if (cursor_.peek() == ')') cursor_.fail_expected("','", "a tuple of one is written (%a,)");
      cursor_.expect(",", "or ')' after an item");
      if (!cursor_.accept(")")) {
        do operand(items);
        while (cursor_.accept(","));
        cursor_.expect(")", "or ',' after an item");
      }
    }
    return make(context_.primitive(Primitive::MakeTuple), items, {}, 1);
  }

  // if %condition { … return %x } else { … return %y }: a call of a Switch, the branches being graphs of their own.
  Node* choice() {
    NestingScope nesting(depth_, cursor_);
    Operands condition, callee;
    operand(condition);
    condition.nodes.push_back(branch("then")->value());
    if (!cursor_.accept_word("else")) cursor_.fail_expected("'else'", "each branch gives a value");
    condition.nodes.push_back(branch("else")->value());
    callee.nodes.push_back(make(context_.primitive(Primitive::Switch), condition, {}, 1));
    return make(context_.primitive(Primitive::Call), callee, {}, 1);
  }

  // A graph that is nested in the current one: statements in brackets, or another choice.
  Graph* branch(std::string_view what) {
    GraphText* outer = std::exchange(current_, &graphs_.emplace_back());
    std::vector<Node*> made = std::exchange(made_, {});
    Graph* graph = current_->graph = module_->make_graph(fmt::format("{}.{}", outer->graph->name(), what));
    graph_index_.emplace(graph->name(), graphs_.size() - 1);
    current_->parent = outer->graph->name();
    cursor_.skip_space();
    current_->parent_position = cursor_.position();
    if (cursor_.accept_word("if")) {
      module_->set_result(graph, choice());
    } else {
      cursor_.expect("{", "before a branch");
      while (!cursor_.accept("}")) statement();
    }
    current_ = outer;
    made_ = std::move(made);
    return graph;
  }

  void list(Operands& operands, std::string_view close) {
    if (cursor_.accept(close)) return;
    do operand(operands);
    while (cursor_.accept(","));
    cursor_.expect(close, "or ',' after an operand");
  }

  // Operator:outputs{attributes}(operands){attributes}
  Node* application() {
    const Operator& op = operator_name();
    size_t num_outputs = 1;
    if (cursor_.rest().starts_with(':')) {
      cursor_.advance(1);
      int64_t number = cursor_.integer("a number of outputs");
      if (number < 0 || number > UINT16_MAX)
        cursor_.fail(fmt::format("an application has 0 to {} outputs", UINT16_MAX));
      num_outputs = static_cast<size_t>(number);
    }
    AttributeSet attributes;
    Operands inputs, values;         // of attributes that are operands
    std::vector<std::string> names;  // of those
    auto reads_operand = [&](std::string_view name) {
      if (cursor_.peek() != '%' && cursor_.peek() != '$') return false;
      names.emplace_back(name);
      operand(values);
      return true;
    };
    bool before = cursor_.accept("{");
    if (before) attributes = literals_.attributes(reads_operand);
    const char next = cursor_.peek();
    if ((next == ',' || next == ')') && names.empty() && num_outputs == 1) return operator_value(op, attributes);
    cursor_.expect("(", "before the operands");
    list(inputs, ")");
    size_t end = cursor_.position();
    if (cursor_.accept("{") && !at_statement()) {
      if (before) cursor_.fail("attributes stand before or after the operands, not both");
      attributes = literals_.attributes(reads_operand);
    } else {
      cursor_.rewind(end);
    }
    if (names.empty()) return make(op, inputs, attributes, num_outputs);
    return with_attributes(op, inputs, attributes, values, std::move(names), num_outputs);
  }

  // An operator that is an operand itself: `call @twice(Neg, %x)`. The same one twice is one function.
  Node* operator_value(const Operator& op, const AttributeSet& attributes) {
    Graph*& function = operator_values_[{&op, context_.attributes(attributes)}];
    try {
      if (!function) function = make_operator_function(*module_, op, attributes);
    } catch (const Error& e) {
      cursor_.fail(e.message(), e.hint());
    }
    return function->value();
  }

  // Attributes that are operands stand behind the others, all of them if one does.
  Node* with_attributes(const Operator& op, Operands& operands, const AttributeSet& given, Operands& values,
                        std::vector<std::string> names, size_t num_outputs) {
    for (Reference& r : values.unknown) {
      r.operand += operands.nodes.size();
      operands.unknown.push_back(std::move(r));
    }
    operands.nodes.insert(operands.nodes.end(), values.nodes.begin(), values.nodes.end());
    for (const auto& [name, value] : given) {
      names.push_back(name);
      operands.nodes.push_back(module_->constant(to_tensor(value)));
    }
    AttributeSet attributes{{"operator", op.qualified}, {"names", std::move(names)}};
    return make(context_.get_operator(kWithAttributes), operands, attributes, num_outputs);
  }

  // What stands behind a condition in brackets is a block, and no attributes.
  bool at_statement() {
    if (cursor_.peek() == '%') return true;
    const size_t start = cursor_.position();
    const bool is_result =
        cursor_.accept_word("return") && !cursor_.accept("=");  // `return` may be an attribute's name
    cursor_.rewind(start);
    return is_result;
  }

  // Whether a string is the domain of an operator.
  bool is_qualified_in_quotes() {
    if (cursor_.peek() != '"') return false;
    size_t start = cursor_.position();
    cursor_.string("a string");
    bool qualified = cursor_.rest().starts_with("::");
    cursor_.rewind(start);
    return qualified;
  }

  const Operator& operator_name() {
    cursor_.skip_space();
    size_t start = cursor_.position();
    std::string first = cursor_.identifier("an operand: %label, @graph, _, a constant or Operator(…)");
    if (cursor_.rest().starts_with("::")) {
      cursor_.advance(2);
      return *context_.operator_or_unknown(first, cursor_.identifier("the name of an operator"));
    }
    const Operator* op = context_.find_operator(first);
    if (!op || !op->known || is_reserved(first)) {
      std::vector<std::string> names;
      for (const Operator* known : context_.operators()) names.push_back(known->qualified);
      std::string hint = did_you_mean(first, names);
      if (hint.empty())
        hint = fmt::format("an operator that is not declared is written with its domain, ai.onnx::{}", first);
      cursor_.fail_at(start, fmt::format("there is no operator {}", first), std::move(hint));
    }
    return *op;
  }

  Label label() {
    Label l;
    size_t start = cursor_.position();
    std::string_view rest = cursor_.rest();
    bool numbered = !rest.empty() && rest[0] >= '0' && rest[0] <= '9';
    if (!numbered) {
      l.name = cursor_.label("a label");
      if (l.name.empty()) cursor_.fail_at(start, "a label is not empty");
      numbered = cursor_.rest().starts_with('#');
      if (numbered) cursor_.advance(1);
    }
    if (numbered) {
      l.number = cursor_.integer("a number");
      if (l.number < 0) cursor_.fail_at(start, "the number of a node is not negative");
    }
    return l;
  }

  void define(Label l, Node* node, size_t position) {
    // A graph's text may state a constant that another's has stated already.
    if (l.number >= 0 && l.number <= kHighestId) ids_.emplace_back(node, static_cast<uint32_t>(l.number));
    auto [at, is_new] = current_->labels.emplace(std::move(l), node);
    if (!is_new && at->second != node) {
      cursor_.fail_at(position, fmt::format("label {} is defined twice in this graph", text_of(at->first)));
    }
  }

  static std::string text_of(const Label& l) {
    if (l.name.empty()) return fmt::format("%{}", l.number);
    return l.number < 0 ? "%" + l.name : fmt::format("%{}#{}", l.name, l.number);
  }

  Value* constant(Tensor tensor, size_t position, std::string_view name = {}) {
    if (!tensor.defined()) cursor_.fail_at(position, "a constant has a dtype");
    Value* value = module_->constant(std::move(tensor), name);
    if (value->name().empty() && !name.empty()) module_->set_name(value, name);
    return value;
  }

  Apply* make(const Operator& op, Operands& inputs, const AttributeSet& attributes, size_t num_outputs) {
    std::span<Node* const> nodes(inputs.nodes.data(), inputs.nodes.size());
    Apply* node = module_->apply(current_->graph, op, nodes, attributes, num_outputs);
    remember(inputs, node);
    made_.push_back(node);
    return node;
  }

  void remember(Operands& operands, Apply* user) {
    for (Reference& r : operands.unknown) {
      r.user = user;
      current_->references.push_back(std::move(r));
    }
  }

  // Resolution -------------------------------------------------------------------------------------

  void resolve() {
    std::vector<size_t> tops;
    for (size_t i = 0; i < graphs_.size(); ++i) {
      if (!graphs_[i].has_parent()) {
        tops.push_back(i);
        continue;
      }
      size_t parent = find_graph(graphs_[i].parent, graphs_[i].parent_position);
      module_->set_parent(graphs_[i].graph, graphs_[parent].graph);
      graphs_[parent].children.push_back(i);
    }
    for (size_t top : tops) resolve_family(top);
    auto unreached = std::ranges::find(graphs_, false, &GraphText::resolved);
    if (unreached == graphs_.end()) return;
    // Its parents lead into a cycle; after as many steps as there are graphs, one is on it.
    for (size_t step = 0; step < graphs_.size(); ++step)
      unreached = graphs_.begin() + static_cast<ptrdiff_t>(graph_index_[unreached->parent]);
    cursor_.fail_at(unreached->parent_position, fmt::format("graph @{} encloses itself", unreached->graph->name()));
  }

  // Walks the tree of graphs below `top` with the labels of all enclosing graphs in scope; the innermost wins.
  void resolve_family(size_t top) {
    LabelMap<boost::container::small_vector<Node*, 1>> scope;
    std::vector<std::pair<size_t, size_t>> path;  // graph, next child
    std::vector<size_t> family;
    std::vector<Reference*> out_of_scope;
    // The labels of a graph that encloses none need not go into the scope.
    auto enter = [&](size_t index) {
      GraphText& g = graphs_[index];
      if (!g.children.empty()) {
        for (const auto& [label, node] : g.labels) scope[label].push_back(node);
      }
      for (Reference& r : g.references) {
        if (r.is_function) {
          module_->set_operand(r.user, r.operand, graphs_[find_graph(*r.graph, r.position)].graph->value());
        } else if (r.graph) {
          resolve_elsewhere(r);
        } else if (auto own = g.labels.find(r.label); own != g.labels.end()) {
          module_->set_operand(r.user, r.operand, own->second);
        } else if (auto found = scope.find(r.label); found != scope.end() && !found->second.empty()) {
          module_->set_operand(r.user, r.operand, found->second.back());
        } else {
          out_of_scope.push_back(&r);
        }
      }
      g.resolved = true;
      family.push_back(index);
      path.emplace_back(index, 0);
    };
    enter(top);
    while (!path.empty()) {
      auto& [index, next] = path.back();
      if (next < graphs_[index].children.size()) {
        enter(graphs_[index].children[next++]);
      } else {
        if (!graphs_[index].children.empty()) {
          for (const auto& [label, node] : graphs_[index].labels) scope[label].pop_back();
        }
        path.pop_back();
      }
    }
    if (!out_of_scope.empty()) resolve_out_of_scope(out_of_scope, family);
  }

  // A label of another graph of the family breaks an invariant, but it is the verifier's to say so.
  void resolve_out_of_scope(std::span<Reference* const> references, std::span<const size_t> family) {
    LabelMap<Node*> all;
    for (size_t index : family) {
      for (const auto& [label, node] : graphs_[index].labels) all.emplace(label, node);
    }
    for (Reference* r : references) {
      auto found = all.find(r->label);
      if (found == all.end()) {
        std::vector<std::string> texts;
        for (const auto& [label, node] : all) texts.push_back(text_of(label));
        std::ranges::sort(texts);
        std::string text = text_of(r->label);
        cursor_.fail_at(r->position, fmt::format("{} is not defined", text), did_you_mean(text, texts));
      }
      module_->set_operand(r->user, r->operand, found->second);
    }
  }

  void resolve_elsewhere(const Reference& r) {
    const GraphText& g = graphs_[find_graph(*r.graph, r.position)];
    auto found = g.labels.find(r.label);
    if (found == g.labels.end())
      cursor_.fail_at(r.position, fmt::format("@{} does not define {}", *r.graph, text_of(r.label)));
    module_->set_operand(r.user, r.operand, found->second);
  }

  size_t find_graph(const std::string& name, size_t position) {
    auto found = graph_index_.find(name);
    if (found == graph_index_.end()) {
      std::vector<std::string> names;
      for (const GraphText& g : graphs_) names.emplace_back(g.graph->name());
      cursor_.fail_at(position, fmt::format("there is no graph @{}", name), did_you_mean(name, names));
    }
    return found->second;
  }

  void choose_main() {
    if (!main_given_) {
      auto found = graph_index_.find("main");
      if (found != graph_index_.end()) module_->set_main(graphs_[found->second].graph);
    } else if (main_) {
      module_->set_main(graphs_[find_graph(*main_, main_position_)].graph);
    }
  }

  Context& context_;
  const ParseOptions& options_;
  std::string_view text_;
  Cursor cursor_;
  TypeParser types_;
  LiteralParser literals_;
  std::unique_ptr<Module> module_;

  std::deque<GraphText> graphs_;
  boost::unordered_flat_map<std::string, size_t> graph_index_;
  GraphText* current_ = nullptr;
  std::vector<Node*> made_;  // by the current statement
  boost::unordered_flat_map<std::pair<const Operator*, const AttributeSet*>, Graph*> operator_values_;
  std::vector<std::pair<Node*, uint32_t>> ids_;
  std::optional<std::string> main_;
  bool main_given_ = false;
  size_t main_position_ = 0;
  bool separated_ = false;  // whether a comma follows the last parameter
  size_t line_ = 1, counted_ = 0;
  int depth_ = 0;
};

}  // namespace

std::unique_ptr<Module> parse(Context& context, std::string_view text, const ParseOptions& options) {
  return ModuleParser(context, text, options).parse();
}

}  // namespace anfora::ir
