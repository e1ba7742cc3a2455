// How names are chosen. The scope of a name is a family: a top-level graph with all graphs nested below it. A first
// pass over the order counts, for each family, who bears which name; a second hands out numbers where they are
// sequential. Constants belong to no graph; each graph's text defines those that its own nodes use, so that every
// graph can be read by itself.
#include "ir/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <map>

#include "ir/lexical.h"
#include "ir/notes.h"
#include "ir/print_literal.h"

namespace anfora::ir {
namespace {

// Parameter lists longer than this go one to a line.
constexpr size_t kLongestHeader = 110;

void append_name_and_number(std::string& out, std::string_view name, bool with_number, uint32_t number) {
  if (name.empty()) {
    out += std::to_string(number);
    return;
  }
  append_label(out, name);
  if (with_number) out.append("#").append(std::to_string(number));
}

void append_function(std::string& out, const Graph& graph) {
  out += '@';
  append_label(out, graph.name());
}

// Names as they are, for a single statement.
struct PlainNames {
  bool defines(const Value& constant) const { return !constant.name().empty() || !is_short(constant.tensor()); }
  void append(std::string& out, const Node& node) const {
    out += '%';
    append_name_and_number(out, node.name(), false, node.id());
  }
};

template <class Names>
class StatementPrinter {
 public:
  StatementPrinter(std::string& out, const Names& names, const PrintOptions& options)
      : out_(out), names_(names), options_(options) {}

  void operand(const Node* node) {
    if (!node) {
      out_ += "<missing>";
    } else if (const Value* value = node->as_value(); !value) {
      names_.append(out_, *node);
    } else if (value->is_graph()) {
      append_function(out_, *value->function());
    } else if (value->is_none()) {
      out_ += '_';
    } else if (value->is_type()) {
      out_.append("type ").append(to_string(value->described()));
    } else if (names_.defines(*value)) {
      names_.append(out_, *value);
    } else {
      append_operand(out_, value->tensor());
    }
  }

  // What stands to the right of "=".
  void application(const Apply& node) {
    switch (node.primitive()) {
      case Primitive::TupleGetItem:
        if (print_item(node)) return;
        break;
      case Primitive::MakeTuple:
        if (!node.attributes().empty() || node.num_outputs() != 1) break;
        operands(node, 0);
        if (node.num_inputs() == 1) out_.insert(out_.size() - 1, 1, ',');  // a tuple of one: "(%a,)"
        return;
      case Primitive::Call:
        if (!node.attributes().empty() || node.num_outputs() != 1 || node.num_inputs() == 0) break;
        out_ += "call ";
        operand(node.input(0));
        operands(node, 1);
        return;
      default: break;
    }
    append_operator(node.op());
    if (node.num_outputs() != 1) fmt::format_to(std::back_inserter(out_), ":{}", node.num_outputs());
    operands(node, 0);
    append_attributes(out_, node.attributes(), options_);
  }

  void type(const Type* type) {
    if (type && options_.types) out_.append(" : ").append(to_string(type));
  }

 private:
  // "%t[0]", when that says all.
  bool print_item(const Apply& node) {
    const AttributeValue* index = node.attributes().find("index");
    const int64_t* i = index ? std::get_if<int64_t>(index) : nullptr;
    bool usual = i && *i >= 0 && node.attributes().size() == 1 && node.num_inputs() == 1 && node.num_outputs() == 1;
    if (!usual || !node.input(0) || node.input(0)->is_value()) return false;
    operand(node.input(0));
    fmt::format_to(std::back_inserter(out_), "[{}]", *i);
    return true;
  }

  void operands(const Apply& node, size_t first) {
    out_ += '(';
    for (size_t i = first; i < node.num_inputs(); ++i) {
      if (i > first) out_ += ", ";
      operand(node.input(i));
    }
    out_ += ')';
  }

  // Bare where it is declared under that name; else with its domain, so that a misspelt name in a hand-written
  // text is not taken for an operator that nobody knows.
  void append_operator(const Operator& op) {
    bool primitive =
        op.primitive == Primitive::Return || op.primitive == Primitive::Call || op.primitive == Primitive::MakeTuple;
    bool bare = op.known && op.qualified == op.name && !primitive && !is_reserved(op.name);
    if (!bare) {
      if (is_reserved(op.domain)) {
        append_quoted(out_, op.domain);
      } else {
        append_identifier(out_, op.domain.empty() ? "ai.onnx" : op.domain);
      }
      out_ += "::";
    }
    append_identifier(out_, op.name);
  }

  std::string& out_;
  const Names& names_;
  const PrintOptions& options_;
};

class ModulePrinter {
 public:
  ModulePrinter(const Module& module, const PrintOptions& options)
      : module_(module),
        options_(options),
        order_(topological_order(module, options.dead ? Coverage::All : Coverage::Live)) {
    for (const ModuleOrder::BackEdge& edge : order_.back_edges) cyclic_.emplace(edge.user);
    for_each_named([&](Family& family, const Node& node) {
      if (node.name().empty()) return;
      auto [at, is_new] = family.bearers.emplace(node.name(), &node);
      if (!is_new && at->second != &node) at->second = nullptr;
    });
    if (options_.numbers == PrintOptions::Numbers::Sequential) {
      for_each_named([&](Family& family, const Node& node) {
        if (needs_number(family, node) && family.numbers.emplace(&node, family.next_number).second)
          ++family.next_number;
      });
    }
  }

  std::string module() {
    if (options_.header) header();
    for (const GraphOrder& g : order_.graphs) {
      if (!out_.empty()) out_ += '\n';
      graph(g);
    }
    if (options_.header && options_.locations) append_notes(out_, module_, order_, options_);
    return std::move(out_);
  }

  std::string graph(const Graph& wanted) {
    for (const GraphOrder& g : order_.graphs) {
      if (g.graph == &wanted) graph(g);
    }
    return std::move(out_);
  }

  // The interface that StatementPrinter asks for.
  bool defines(const Value& constant) const {
    return !constant.name().empty() || constant.location() || !is_short_(constant);
  }
  void append(std::string& out, const Node& node) const {
    const Family* family = current_;
    if (node.graph() && node.graph() != graph_ && family_of(*node.graph()) != family) {
      append_function(out, *node.graph());  // only in a broken module
      family = family_of(*node.graph());
    }
    out += '%';
    bool numbered = !family || needs_number(*family, node);
    append_name_and_number(out, node.name(), numbered, numbered ? number(family, node) : 0);
  }

 private:
  struct Family {
    boost::unordered_flat_map<std::string_view, const Node*> bearers;  // null: several
    boost::unordered_flat_map<const Node*, uint32_t> numbers;          // only when sequential
    uint32_t next_number = 0;
  };

  static bool needs_number(const Family& family, const Node& node) {
    if (node.name().empty()) return true;
    auto found = family.bearers.find(node.name());
    return found == family.bearers.end() || found->second != &node;
  }
  static uint32_t number(const Family* family, const Node& node) {
    if (!family) return node.id();
    auto found = family->numbers.find(&node);
    return found == family->numbers.end() ? node.id() : found->second;
  }

  // Calls visit(family, node) for every definition, in the order of the text; constants once for each graph.
  template <class Visit>
  void for_each_named(Visit&& visit) {
    for (const GraphOrder& g : order_.graphs) {
      Family& family = families_[root_of(*g.graph)];
      for (const Parameter* p : g.graph->parameters()) visit(family, *p);
      auto visit_nodes = [&](std::span<Apply* const> nodes) {
        for (const Apply* node : nodes) {
          for (const Use& use : node->operands()) {
            const Value* value = use.node ? use.node->as_value() : nullptr;
            if (value && value->is_tensor() && defines(*value)) visit(family, *value);
          }
          if (node != g.graph->return_node()) visit(family, *node);
        }
      };
      visit_nodes(g.nodes);
      visit_nodes(g.dead);
    }
  }

  // The top-level graph above; in a cycle of parents, any of them.
  const Graph* root_of(const Graph& graph) {
    auto [at, is_new] = root_.emplace(&graph, &graph);
    if (!is_new) return at->second;
    std::vector<const Graph*> path;
    const Graph* top = &graph;
    while (top->parent()) {
      path.push_back(top);
      top = top->parent();
      auto [known, fresh] = root_.emplace(top, top);
      if (!fresh) {
        top = known->second;
        break;
      }
    }
    for (const Graph* g : path) root_[g] = top;
    return top;
  }
  const Family* family_of(const Graph& graph) const {
    auto root = root_.find(&graph);
    auto found = families_.find(root == root_.end() ? nullptr : root->second);
    return found == families_.end() ? nullptr : &found->second;
  }

  bool is_short_(const Value& constant) const {
    auto [at, is_new] = short_.emplace(&constant, false);
    if (is_new) at->second = is_short(constant.tensor());
    return at->second;
  }

  // Text -------------------------------------------------------------------------------------------

  void header() {
    const Metadata& m = module_.metadata();
    std::string lines;
    auto entry = [&](std::string_view key, const std::string& value) {
      if (value.empty()) return;
      lines.append("  ").append(key).append(" = ");
      append_quoted(lines, value);
      lines += '\n';
    };
    auto integer = [&](std::string_view key, int64_t value) {
      if (value != 0) lines += fmt::format("  {} = {}\n", key, value);
    };
    entry("name", m.graph_name);
    entry("graph_doc", m.graph_doc);
    for (const auto& [domain, version] : m.opsets) {
      lines += "  opset ";
      append_quoted(lines, domain);
      lines += fmt::format(" = {}\n", version);
    }
    integer("ir_version", m.ir_version);
    entry("producer", m.producer);
    entry("producer_version", m.producer_version);
    entry("domain", m.domain);
    integer("model_version", m.model_version);
    entry("doc", m.doc);
    auto properties = [&](const char* word, const std::vector<std::pair<std::string, std::string>>& all) {
      for (const auto& [key, value] : all) {
        lines.append("  ").append(word).append(" ");
        append_quoted(lines, key);
        lines += " = ";
        append_quoted(lines, value);
        lines += '\n';
      }
    };
    properties("property", m.properties);
    properties("graph_property", m.graph_properties);
    const Graph* main = module_.main();
    if (main ? main->name() != "main" : module_.find_graph("main") != nullptr) {
      lines += "  main = ";
      if (main) append_function(lines, *main);
      if (!main) lines += '_';
      lines += '\n';
    }
    symbols(lines);
    outputs(lines);
    if (!lines.empty()) out_.append("module {\n").append(lines).append("}\n");
  }

  // outputs = ["y": f32[N, 10], "z"]
  void outputs(std::string& lines) {
    const std::vector<std::string>& names = module_.output_names();
    const std::vector<const Type*>& types = module_.metadata().output_types;
    if (names.empty()) return;
    lines += "  outputs = [";
    for (size_t i = 0; i < names.size(); ++i) {
      if (i) lines += ", ";
      append_quoted(lines, names[i]);
      if (i < types.size() && types[i]) lines.append(": ").append(to_string(types[i]));
    }
    lines += "]\n";
  }

  // Symbols with another range than "any size", by name.
  void symbols(std::string& lines) {
    boost::unordered_flat_set<const Type*> seen;
    std::map<std::string_view, Dim> ranged;
    std::vector<const Type*> pending;
    auto visit = [&](const Type* type) {
      pending.push_back(type);
      while (!pending.empty()) {
        const Type* next = pending.back();
        pending.pop_back();
        if (!next || !seen.insert(next).second) continue;
        for (const Type* element : next->elements()) pending.push_back(element);
        for (Dim dim : next->dims()) {
          for_each_symbol(dim, [&](Dim symbol) {
            if (symbol.range() != Range{0, Range::kHighest}) ranged.emplace(symbol.symbol_name(), symbol);
          });
        }
      }
    };
    for (const Type* type : module_.metadata().output_types) visit(type);
    for (const GraphOrder& g : order_.graphs) {
      for (const Parameter* p : g.graph->parameters()) visit(p->type());
      for (const Apply* node : g.nodes) visit(node->type());
      for (const Apply* node : g.dead) visit(node->type());
    }
    for (const auto& [name, symbol] : ranged) {
      Range range = symbol.range();
      lines.append("  symbol ").append(to_string(symbol)).append(" = [");
      lines += range.low <= Range::kLowest ? "-inf" : std::to_string(range.low);
      lines += ", ";
      lines += range.high >= Range::kHighest ? "inf" : std::to_string(range.high);
      lines += "]\n";
    }
  }

  void graph(const GraphOrder& g) {
    graph_ = g.graph;
    current_ = family_of(*g.graph);
    graph_header();
    defined_.clear();
    for (const Apply* node : g.nodes) {
      if (node != graph_->return_node()) statement(*node);
    }
    if (!g.dead.empty()) out_ += "  # not used:\n";
    for (const Apply* node : g.dead) statement(*node);
    if (const Apply* result = graph_->return_node()) {
      return_statement(*result);
    } else {
      out_ += "  # broken: no return\n";
    }
    out_ += "}\n";
  }

  void graph_header() {
    out_ += "graph ";
    append_function(out_, *graph_);
    size_t start = out_.size();
    parameters(false);
    bool one_a_line =
        out_.size() - start > kLongestHeader || std::ranges::any_of(graph_->parameters(), [&](const Parameter* p) {
          return module_.default_of(p) || (p->location() && options_.locations);
        });
    if (one_a_line) {
      out_.resize(start);
      parameters(true);
    }
    if (graph_->parent()) {
      out_ += " in ";
      append_function(out_, *graph_->parent());
    }
    const Apply* result = graph_->return_node();
    if (result && result->type() && options_.types) out_.append(" -> ").append(to_string(result->type()));
    out_ += " {\n";
  }

  void parameters(bool one_a_line) {
    out_ += '(';
    for (const Parameter* p : graph_->parameters()) {
      bool last = p->index() + 1 == graph_->parameters().size();
      if (one_a_line) out_ += "\n    ";
      append(out_, *p);
      if (p->type() && options_.types) out_.append(": ").append(to_string(p->type()));
      if (p->is_donated()) out_ += " donated";
      if (const Value* otherwise = module_.default_of(p); otherwise && otherwise->is_tensor()) {
        out_ += " = ";
        append_constant(out_, otherwise->tensor(), options_);
        if (!otherwise->name().empty()) {
          out_ += " as ";
          append_quoted(out_, otherwise->name());
        }
      }
      if (!last) out_ += one_a_line ? "," : ", ";
      if (one_a_line) location(*p);
    }
    out_ += one_a_line ? "\n  )" : ")";
  }

  void constants_of(const Apply& node) {
    for (const Use& use : node.operands()) {
      const Value* value = use.node ? use.node->as_value() : nullptr;
      if (!value || !value->is_tensor() || !defines(*value) || !defined_.insert(value).second) continue;
      out_ += "  ";
      append(out_, *value);
      out_ += " = const ";
      append_constant(out_, value->tensor(), options_);
      location(*value);
      out_ += '\n';
    }
  }

  void statement(const Apply& node) {
    constants_of(node);
    problems(node);
    out_ += "  ";
    append(out_, node);
    out_ += " = ";
    StatementPrinter printer(out_, *this, options_);
    printer.application(node);
    printer.type(node.type());
    location(node);
    out_ += '\n';
  }

  void return_statement(const Apply& node) {
    constants_of(node);
    problems(node);
    out_ += "  return ";
    StatementPrinter printer(out_, *this, options_);
    printer.operand(node.num_inputs() > 0 ? node.input(0) : nullptr);
    location(node);
    out_ += '\n';
  }

  // "   # fc (layer: node 3) inlined at layer0 (model.onnx: node 7)". Names that would be hard to tell from their surroundings
  // are quoted.
  void location(const Node& node) {
    const Location* l = node.location();
    if (!l || !options_.locations) return;
    auto is_plain_text = [](std::string_view text) {
      return !text.starts_with(' ') && text.find(kInlinedAt) == std::string_view::npos && !text.ends_with(' ') &&
             std::ranges::none_of(
                 text, [](unsigned char c) { return c < 0x20 || c >= 0x7f || c == '"' || c == '(' || c == ')'; });
    };
    bool is_plain = true;
    for (const Location* at = l; at; at = at->inlined_at) {
      is_plain = is_plain && at->index >= 0 && is_plain_text(at->name) && is_plain_text(at->file);
    }
    out_ += "   # ";
    for (; l; l = l->inlined_at) {
      if (is_plain) {
        out_ += l->name;
        out_ += l->name.empty() ? "(" : " (";
        out_ += l->file;
        fmt::format_to(std::back_inserter(out_), ": node {})", l->index);
      } else {
        append_location(out_, *l);
      }
      if (l->inlined_at) out_ += kInlinedAt;
    }
  }

  void problems(const Apply& node) {
    auto report = [&](const std::string& text) { out_.append("  # broken: ").append(text).append("\n"); };
    if (cyclic_.contains(&node)) report("the next node is part of a cycle");
    for (const Use& use : node.operands()) {
      if (!use.node) {
        report("an operand is missing");
      } else if (use.node->is_erased()) {
        report(fmt::format("operand {} is erased", use.index()));
      } else if (use.node->as(Primitive::Return)) {
        report(fmt::format("operand {} is the return of a graph", use.index()));
      } else if (use.node->graph() && use.node->graph() != graph_ && !is_visible(*use.node->graph())) {
        report(fmt::format("operand {} belongs to a graph that does not enclose this one", use.index()));
      }
    }
  }

  // Whether `owner` encloses the current graph; unlike Graph::is_inside, safe on a cycle of parents.
  bool is_visible(const Graph& owner) const {
    size_t steps = 0;
    for (const Graph* g = graph_->parent(); g && steps <= module_.graphs().size(); g = g->parent(), ++steps) {
      if (g == &owner) return true;
    }
    return false;
  }

  const Module& module_;
  const PrintOptions& options_;
  ModuleOrder order_;
  boost::unordered_flat_map<const Graph*, Family> families_;  // by top-level graph
  boost::unordered_flat_map<const Graph*, const Graph*> root_;
  mutable boost::unordered_flat_map<const Value*, bool> short_;
  boost::unordered_flat_set<const Apply*> cyclic_;
  const Graph* graph_ = nullptr;  // being printed, with its family and the constants defined so far
  const Family* current_ = nullptr;
  boost::unordered_flat_set<const Value*> defined_;
  std::string out_;
};

}  // namespace

std::string print(const Module& module, const PrintOptions& options) { return ModulePrinter(module, options).module(); }

std::string print(const Graph& graph, const PrintOptions& options) {
  return ModulePrinter(graph.module(), options).graph(graph);
}

std::string print(const Node& node) {
  PrintOptions options;
  options.elide_constants = true;
  std::string out;
  PlainNames names;
  StatementPrinter printer(out, names, options);
  const Apply* apply = node.as_apply();
  if (!apply) {
    printer.operand(&node);
    return out;
  }
  if (apply->primitive() == Primitive::Return) {
    out += "return ";
    printer.operand(apply->num_inputs() > 0 ? apply->input(0) : nullptr);
    return out;
  }
  names.append(out, node);
  out += " = ";
  printer.application(*apply);
  printer.type(apply->type());
  return out;
}

}  // namespace anfora::ir
