#include "ir/dot.h"

#include <fmt/format.h>

#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <vector>

#include "ir/order.h"
#include "ir/print.h"

namespace anfora::ir {
namespace {

// Longer texts (attributes, constants) are cut, so that boxes stay readable.
constexpr size_t kLongestLine = 48;
// Constants with more elements are shown by their type.
constexpr int64_t kMostElements = 4;

std::string dot_string(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out += '"';
}

std::string shortened(std::string text) {
  if (text.size() <= kLongestLine) return text;
  size_t end = kLongestLine;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not inside of a UTF-8 character
  return text.substr(0, end) + "…";
}

std::string_view colour(const Apply& node) {
  if (node.primitive() == Primitive::Call || node.primitive() == Primitive::Switch) return "#f3d1dc";
  switch (node.op().fusion) {
    case FusionKind::Anchor: return "#f6c99f";
    case FusionKind::Elementwise:
    case FusionKind::Broadcast: return "#d3ebd0";
    case FusionKind::Reduction: return "#cfdcf2";
    case FusionKind::View:
    case FusionKind::Injective: return "#ececec";
    case FusionKind::Opaque: return "#ffffff";
  }
  return "#ffffff";
}

class DotWriter {
 public:
  DotWriter(const Module& module, const DotOptions& options)
      : module_(module),
        options_(options),
        order_(topological_order(module, options.dead ? Coverage::All : Coverage::Live)) {
    for (size_t i = 0; i < order_.graphs.size(); ++i) index_of_.emplace(order_.graphs[i].graph, i);
  }

  std::string write() {
    add("digraph {}{{\n", module_.metadata().graph_name.empty() ? "" : dot_string(module_.metadata().graph_name) + " ");
    add("  compound=true; newrank=true; fontname=\"Helvetica\"; fontsize=11;\n");
    add("  node [shape=box, style=\"rounded,filled\", fillcolor=white, fontname=\"Helvetica\", fontsize=10];\n");
    add("  edge [arrowsize=0.6, color=\"#555555\", fontname=\"Helvetica\", fontsize=9];\n");
    write_clusters();
    for (const GraphOrder& g : order_.graphs) {
      for (const auto* nodes : {&g.nodes, &g.dead}) {
        for (const Apply* node : *nodes) write_edges(*node);
      }
    }
    add("}}\n");
    return std::move(out_);
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  // Clusters nest as graphs do. A graph whose parent is not drawn, as in a broken module, is drawn at the top level.
  void write_clusters() {
    std::vector<std::vector<size_t>> children(order_.graphs.size());
    std::vector<size_t> roots;
    for (size_t i = 0; i < order_.graphs.size(); ++i) {
      auto parent = index_of_.find(order_.graphs[i].graph->parent());
      (parent == index_of_.end() ? roots : children[parent->second]).push_back(i);
    }
    struct Frame {
      size_t graph, next_child;
    };
    std::vector<Frame> open;
    for (size_t root : roots) {
      open_cluster(root);
      open.push_back({root, 0});
      while (!open.empty()) {
        auto [graph, i] = open.back();
        if (i == children[graph].size()) {
          open.pop_back();
          add("  }}\n");
          continue;
        }
        ++open.back().next_child;
        open_cluster(children[graph][i]);
        open.push_back({children[graph][i], 0});
      }
    }
  }

  void open_cluster(size_t index) {
    const auto& [graph, live, dead] = order_.graphs[index];
    add("  subgraph cluster_{} {{\n    label={}; style=rounded; color=\"#999999\";\n", index,
        dot_string("@" + std::string(graph->name())));
    for (const Parameter* parameter : graph->parameters()) {
      std::string label =
          parameter->name().empty() ? fmt::format("%{}", parameter->id()) : std::string(parameter->name());
      add("    n{} [shape=ellipse, style=filled, fillcolor=\"#fff3b0\", label={}];\n", parameter->id(),
          dot_string(label + type_line(*parameter)));
    }
    for (const Apply* node : live) write_node(*node, false);
    for (const Apply* node : dead) write_node(*node, true);
  }

  std::string type_line(const Node& node) const {
    return options_.types && node.type() ? "\n" + shortened(to_string(node.type())) : "";
  }

  void write_node(const Apply& node, bool dead) {
    if (node.primitive() == Primitive::Return) {
      add("    n{} [shape=ellipse, style=filled, fillcolor=\"#fff3b0\", label=\"return\"];\n", node.id());
      return;
    }
    std::string label = node.op().qualified;
    if (node.primitive() == Primitive::MakeTuple) label = "( , )";
    if (node.primitive() == Primitive::TupleGetItem)
      label = fmt::format("[{}]", node.attributes().get_int("index", -1));
    if (!node.name().empty()) label += "\n" + shortened(std::string(node.name()));
    if (options_.attributes && node.primitive() == Primitive::Operation) {
      for (const AttributeSet::Entry& entry : node.attributes()) {
        std::string text = print(AttributeSet({entry}));
        label += "\n" + shortened(text.substr(1, text.size() - 2));
      }
    }
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      if (constant_tensor(node.input(i))) label += "\n" + constant_line(node, i);
    }
    label += type_line(node);
    add("    n{} [fillcolor=\"{}\"{}{}, label={}];\n", node.id(), colour(node),
        node.op().effect == Effect::Pure ? "" : ", peripheries=2",
        dead ? ", style=\"rounded,dashed\", fontcolor=\"#999999\"" : "", dot_string(label));
  }

  // "W = f32[64, 3, 3, 3]": by the formal name of the operand.
  static std::string constant_line(const Apply& node, size_t i) {
    const std::vector<Formal>& formals = node.op().inputs;
    std::string name = i < formals.size() ? formals[i].name : fmt::format("#{}", i);
    const Tensor& tensor = node.input(i)->as_value()->tensor();
    std::string value = tensor.size() <= kMostElements ? print(tensor) : to_string(node.input(i)->type());
    return shortened(fmt::format("{} = {}", name, value));
  }

  void write_edges(const Apply& user) {
    for (size_t i = 0; i < user.num_inputs(); ++i) {
      const Node* operand = user.input(i);
      if (!operand) {
        add("  missing{0}_{1} [label=\"missing\", fillcolor=\"#ff8080\"]; missing{0}_{1} -> n{0} [color=red];\n",
            user.id(), i);
      } else if (const Graph* function = constant_function(operand)) {
        write_function_edge(user, i, *function);
      } else if (!operand->is_value()) {
        if (operand->is_erased() && drawn_erased_.insert(operand).second) {
          add("  n{} [label={}, fillcolor=\"#ff8080\"];\n", operand->id(), dot_string(describe(*operand) + "\nerased"));
        }
        add("  n{} -> n{}{};\n", operand->id(), user.id(), operand->is_erased() ? " [color=red]" : "");
      }
    }
  }

  // From the end of the function to where it is used. Recursion does not take part in the layout.
  void write_function_edge(const Apply& user, size_t i, const Graph& function) {
    auto index = index_of_.find(&function);
    if (index == index_of_.end() || !function.return_node()) return;
    bool inside = encloses(function, user.graph());
    std::string_view label = user.primitive() != Primitive::Switch ? ""
                             : i == 1                              ? ", label=\"true\""
                                                                   : ", label=\"false\"";
    add("  n{} -> n{} [style=dashed, {}{}];\n", function.return_node()->id(), user.id(),
        inside ? "constraint=false" : fmt::format("ltail=cluster_{}", index->second), label);
  }

  // Ends also where, in a broken module, parents form a ring.
  bool encloses(const Graph& outer, const Graph* graph) const {
    for (size_t step = 0; graph && step <= order_.graphs.size(); ++step, graph = graph->parent()) {
      if (graph == &outer) return true;
    }
    return false;
  }

  const Module& module_;
  const DotOptions options_;
  ModuleOrder order_;
  boost::unordered_flat_map<const Graph*, size_t> index_of_;
  boost::unordered_flat_set<const Node*> drawn_erased_;
  std::string out_;
};

}  // namespace

std::string to_dot(const Module& module, const DotOptions& options) { return DotWriter(module, options).write(); }

}  // namespace anfora::ir
