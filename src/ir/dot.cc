#include "ir/dot.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "anfora/error.h"
#include "ir/dot_label.h"
#include "ir/order.h"
#include "ir/outline.h"

namespace anfora::ir {
namespace {

// Functions that are drawn with their bodies, and dead nodes of one function.
constexpr size_t kMostBodies = 40, kMostDead = 40;
// So many parameters that look the same and go to the same boxes are one.
constexpr size_t kFewestAlike = 3;

class DotWriter {
 public:
  DotWriter(const Module& module, const DotOptions& options)
      : module_(module),
        options_(options),
        order_(topological_order(module, options.dead ? Coverage::All : Coverage::Live)) {
    size_t next_part = 1;
    for (size_t i = 0; i < order_.graphs.size(); ++i) {
      const GraphOrder& g = order_.graphs[i];
      index_of_.emplace(g.graph, i);
      outlines_.push_back(
          std::make_unique<Outline>(std::span<Apply* const>(g.nodes.data(), g.nodes.size()),
                                    OutlineOptions{.collapse = options.collapse, .first_part = next_part}));
      next_part = outlines_.back()->next_part();
    }
    has_parts_ = next_part > 1;
    if (!options.part.empty()) open_part();
    choose_bodies();
  }

  std::string write() {
    add("digraph {}{{\n", module_.metadata().graph_name.empty() ? "" : dot_quoted(module_.metadata().graph_name) + " ");
    add("  compound=true; newrank=true; fontname=\"Helvetica\"; fontsize=11;\n");
    if (has_parts_ && options_.part.empty()) {
      add("  labelloc=t; label=\"part N by itself: anfora dump MODEL --format svg --part N\";\n");
    }
    add("  node [shape=box, style=\"rounded,filled\", fillcolor=white, fontname=\"Helvetica\", fontsize=10];\n");
    add("  edge [arrowsize=0.6, color=\"#555555\", fontname=\"Helvetica\", fontsize=9];\n");
    if (part_) {
      write_part();
    } else {
      write_clusters();
    }
    for (size_t i = 0; i < order_.graphs.size(); ++i) {
      if (!has_body_[i]) continue;
      const GraphOrder& g = order_.graphs[i];
      for (const Apply* node : g.nodes) write_edges(*node, *outlines_[i]);
      for (const Apply* node : drawn_dead(g)) write_edges(*node, *outlines_[i]);
    }
    add("}}\n");
    return std::move(out_);
  }

 private:
  using Kind = OutlineItem::Kind;

  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  // What is drawn -----------------------------------------------------------------------------------------------------

  void open_part() {
    for (const auto& outline : outlines_) {
      std::vector<const OutlineItem*> pending(outline->items().begin(), outline->items().end());
      while (!pending.empty()) {
        const OutlineItem* item = pending.back();
        pending.pop_back();
        pending.insert(pending.end(), item->items.begin(), item->items.end());
        if (item->kind == Kind::Part && item->number == options_.part) part_ = item;
      }
    }
    if (!part_) {
      throw Error(ErrorCode::NotFound, fmt::format("the picture has no part {}", options_.part))
          .with_hint("the picture of the whole model numbers them; small ones have none");
    }
    for (const OutlineItem* item = part_; item; item = item->outer) opened_.insert(item);
  }

  // Bodies: of main, of what the boxes of a body use, and of functions that nobody uses. With a part: its graph alone.
  void choose_bodies() {
    has_body_.assign(order_.graphs.size(), false);
    is_box_.assign(order_.graphs.size(), false);
    if (order_.graphs.empty()) return;
    if (part_) {
      has_body_[index_of_.at(part_->node->graph())] = true;
      return;
    }
    std::vector<bool> is_used(order_.graphs.size());
    std::vector<std::vector<size_t>> uses(order_.graphs.size());
    for (size_t i = 0; i < order_.graphs.size(); ++i) {
      for (const Apply* node : order_.graphs[i].nodes) {
        for (const Use& use : node->operands()) {
          const Graph* function = use.node ? constant_function(use.node) : nullptr;
          auto index = function ? index_of_.find(function) : index_of_.end();
          if (index == index_of_.end()) continue;
          is_used[index->second] = true;
          if (const OutlineItem* item = outlines_[i]->item_of(*node); item->node == node && shown(*item) == item) {
            uses[i].push_back(index->second);
          }
        }
      }
    }
    std::vector<size_t> pending;
    for (size_t i = order_.graphs.size(); i-- > 0;) {
      if (!is_used[i] || i == 0) pending.push_back(i);
    }
    for (size_t bodies = 0; !pending.empty();) {
      const size_t i = pending.back();
      pending.pop_back();
      if (has_body_[i] || is_box_[i]) continue;
      if (bodies == kMostBodies) {
        is_box_[i] = true;
        continue;
      }
      ++bodies;
      has_body_[i] = true;
      pending.insert(pending.end(), uses[i].rbegin(), uses[i].rend());
    }
  }

  std::span<Apply* const> drawn_dead(const GraphOrder& g) const {
    const bool are_few = !options_.collapse || g.dead.size() <= kMostDead;
    return part_ || !are_few ? std::span<Apply* const>() : std::span<Apply* const>(g.dead.data(), g.dead.size());
  }

  // The item itself, or the outermost closed part that holds it.
  const OutlineItem* shown(const OutlineItem& item) const {
    const OutlineItem* result = &item;
    for (const OutlineItem* outer = item.outer; outer; outer = outer->outer) {
      if (outer->kind == Kind::Part && !opened_.contains(outer)) result = outer;
    }
    return result;
  }
  // Whether a part is drawn, and the item lies outside of it.
  bool is_outside(const OutlineItem* item) const {
    if (!part_) return false;
    for (; item; item = item->outer) {
      if (item == part_) return false;
    }
    return true;
  }
  const OutlineItem* item_of(const Apply& node) const {
    auto index = index_of_.find(node.graph());
    const OutlineItem* item = index == index_of_.end() ? nullptr : outlines_[index->second]->item_of(node);
    return item ? shown(*item) : nullptr;
  }
  static std::string id(const OutlineItem& item) {
    if (item.kind == Kind::Node) return fmt::format("n{}", item.node->id());
    std::string text = "part" + item.number;
    std::ranges::replace(text, '.', '_');
    return text;
  }
  std::string id(const Node& node) const {
    if (auto alike = alike_.find(&node); alike != alike_.end()) return fmt::format("n{}", alike->second->id());
    const Apply* apply = node.as_apply();
    const OutlineItem* item = apply ? item_of(*apply) : nullptr;
    return item ? id(*item) : fmt::format("n{}", node.id());
  }

  // Boxes -------------------------------------------------------------------------------------------------------------

  // Clusters nest as graphs do. A graph whose parent is not drawn, as in a broken module, is drawn at the top level.
  void write_clusters() {
    std::vector<std::vector<size_t>> children(order_.graphs.size());
    std::vector<size_t> roots;
    for (size_t i = 0; i < order_.graphs.size(); ++i) {
      if (!has_body_[i] && !is_box_[i]) continue;
      auto parent = index_of_.find(order_.graphs[i].graph->parent());
      const bool is_root = parent == index_of_.end() || !has_body_[parent->second];
      (is_root ? roots : children[parent->second]).push_back(i);
    }
    struct Frame {
      size_t graph, next_child;
    };
    std::vector<Frame> open;
    auto begin = [&](size_t graph) {
      if (is_box_[graph]) return write_box(graph);
      open_cluster(graph);
      open.push_back({graph, 0});
    };
    for (size_t root : roots) {
      begin(root);
      while (!open.empty()) {
        auto [graph, i] = open.back();
        if (i == children[graph].size()) {
          open.pop_back();
          add("  }}\n");
          continue;
        }
        ++open.back().next_child;
        begin(children[graph][i]);
      }
    }
  }

  void write_box(size_t index) {
    const GraphOrder& g = order_.graphs[index];
    add("  g{} [style=\"rounded,dashed\", label={}];\n", index,
        dot_quoted(fmt::format("@{}\n{} nodes", g.graph->name(), g.nodes.size())));
  }

  void open_cluster(size_t index) {
    const auto& [graph, live, dead] = order_.graphs[index];
    add("  subgraph cluster_{} {{\n    label={}; style=rounded; color=\"#999999\";\n", index,
        dot_quoted("@" + std::string(graph->name())));
    write_parameters(*graph);
    write_items(outlines_[index]->items());
    for (const Apply* node : drawn_dead(order_.graphs[index])) write_node(*node, true);
    if (dead.size() > drawn_dead(order_.graphs[index]).size()) {
      add("    dead{} [style=\"rounded,dashed\", fontcolor=\"#999999\", label=\"{} dead nodes\"];\n", index,
          dead.size());
    }
  }

  void write_parameters(const Graph& graph) {
    std::map<std::vector<std::string>, std::vector<const Parameter*>> groups;
    std::vector<std::vector<std::string>> keys;
    for (const Parameter* parameter : graph.parameters()) {
      std::set<std::string> users;
      for (const Use& use : parameter->uses()) {
        if (!is_outside(item_of(*use.user))) users.insert(id(*use.user));
      }
      if (part_ && users.empty()) continue;
      std::vector<std::string> key(users.begin(), users.end());
      // Alike are those of one rank and dtype that are read at the same places.
      const Type* type = parameter->type();
      const bool is_tensor = type && type->is_tensor() && type->has_rank();
      key.push_back(is_tensor ? fmt::format("{} {}", name(type->dtype()), type->rank()) : "");
      if (users.empty() || !options_.collapse) key.push_back(fmt::format("{}", parameter->id()));
      std::vector<const Parameter*>& group = groups[key];
      if (group.empty()) keys.push_back(key);
      group.push_back(parameter);
    }
    for (const auto& key : keys) {
      const std::vector<const Parameter*>& group = groups[key];
      const bool is_one = group.size() >= kFewestAlike;
      for (const Parameter* parameter : group) {
        if (is_one) alike_.emplace(parameter, group[0]);
        if (is_one && parameter != group[0]) continue;
        std::string label = dot_label(*parameter, options_);
        if (is_one) label += fmt::format("\nand {} more like it", group.size() - 1);
        add("    n{} [shape=ellipse, style=filled, fillcolor=\"#fff3b0\", label={}];\n", parameter->id(),
            dot_quoted(label));
      }
    }
  }

  // Nested ones inside their frame. Outlines nest a few levels deep only.
  void write_items(std::span<OutlineItem* const> items) {
    for (const OutlineItem* item : items) {
      switch (item->kind) {
        case Kind::Node: write_node(*item->node, false); break;
        case Kind::Part:
          add("    {} [style=\"filled\", fillcolor=\"#e8e4f3\", label={}];\n", id(*item), dot_quoted(dot_label(*item)));
          break;
        case Kind::Repeat:
          add("    subgraph cluster_repeat{} {{\n    label=\"× {}\"; style=rounded; color=\"#4a7fb5\"; "
              "fontcolor=\"#4a7fb5\"; bgcolor=\"#f4f8fc\";\n",
              next_repeat_++, item->count);
          write_items(item->items);
          add("    }}\n");
          break;
      }
    }
  }

  void write_node(const Apply& node, bool dead) {
    if (node.primitive() == Primitive::Return) {
      add("    n{} [shape=ellipse, style=filled, fillcolor=\"#fff3b0\", label=\"return\"];\n", node.id());
      return;
    }
    add("    n{} [fillcolor=\"{}\"{}{}, label={}, tooltip={}];\n", node.id(), dot_colour(node),
        node.op().effect == Effect::Pure ? "" : ", peripheries=2",
        dead ? ", style=\"rounded,dashed\", fontcolor=\"#999999\"" : "", dot_quoted(dot_label(node, options_)),
        dot_quoted(dot_tooltip(node)));
  }

  // One part, and what it is connected with.
  void write_part() {
    add("  subgraph cluster_0 {{\n    label={}; style=rounded; color=\"#999999\";\n",
        dot_quoted("part " + part_->number));
    write_parameters(*part_->node->graph());
    write_items(part_->items);
    add("  }}\n");
  }
  void write_stub(const OutlineItem& item) {
    if (!stubs_.insert(&item).second) return;
    std::string label = item.kind == Kind::Part ? "part " + item.number : describe(*item.node);
    add("  {} [style=\"rounded,dashed\", fontcolor=\"#777777\", label={}];\n", id(item),
        dot_quoted(dot_shortened(label, 40)));
  }

  // Arrows ------------------------------------------------------------------------------------------------------------

  void write_edges(const Apply& user, const Outline& outline) {
    for (size_t i = 0; i < user.num_inputs(); ++i) {
      const Node* operand = user.input(i);
      if (!operand) {
        add("  missing{0}_{1} [label=\"missing\", fillcolor=\"#ff8080\"]; missing{0}_{1} -> n{0} [color=red];\n",
            user.id(), i);
      } else if (const Graph* function = constant_function(operand)) {
        write_function_edge(user, i, *function);
      } else if (!operand->is_value()) {
        write_value_edge(user, *operand, outline);
      }
    }
  }

  void write_value_edge(const Apply& user, const Node& operand, const Outline& outline) {
    if (operand.is_erased()) {
      if (drawn_erased_.insert(&operand).second) {
        add("  n{} [label={}, fillcolor=\"#ff8080\"];\n", operand.id(), dot_quoted(describe(operand) + "\nerased"));
      }
      return add("  n{} -> {} [color=red];\n", operand.id(), id(user));
    }
    const Apply* apply = operand.as_apply();
    const OutlineItem *from = apply ? item_of(*apply) : nullptr, *to = item_of(user);
    if (part_) {
      const bool is_from_outside = apply && is_outside(from), is_to_outside = is_outside(to);
      if (is_to_outside && (is_from_outside || !apply)) return;
      if (is_from_outside && from) write_stub(*from);
      if (is_to_outside && to) write_stub(*to);
    }
    const std::string a = id(operand), b = id(user);
    const bool is_carried = apply && outline.is_carried(*apply, user);
    if (a == b && (!is_carried || (to && to->kind == Kind::Part))) return;
    if (!edges_.insert(a + (is_carried ? ">" : "-") + b).second) return;
    add("  {} -> {}{};\n", a, b, is_carried ? " [constraint=false, color=\"#4a7fb5\"]" : "");
  }

  // From the end of the function to where it is used. Recursion does not take part in the layout.
  void write_function_edge(const Apply& user, size_t i, const Graph& function) {
    auto index = index_of_.find(&function);
    if (index == index_of_.end() || !function.return_node()) return;
    const bool is_box = is_box_[index->second];
    if (!is_box && !has_body_[index->second]) return;
    const std::string from = is_box ? fmt::format("g{}", index->second) : id(*function.return_node()), to = id(user);
    if (!edges_.insert(fmt::format("{}={}{}", from, to, i)).second) return;
    const bool inside = encloses(function, user.graph());
    std::string_view label = user.primitive() != Primitive::Switch ? ""
                             : i == 1                              ? ", label=\"true\""
                                                                   : ", label=\"false\"";
    std::string where = inside ? "constraint=false" : fmt::format("ltail=cluster_{}", index->second);
    add("  {} -> {} [style=dashed{}{}];\n", from, to, is_box ? "" : ", " + where, label);
  }

  // Ends also where, in a broken module, parents form a ring.
  bool encloses(const Graph& outer, const Graph* graph) const {
    for (size_t step = 0; graph && step <= order_.graphs.size(); ++step, graph = graph->parent()) {
      if (graph == &outer) return true;
    }
    return false;
  }

  const Module& module_;
  const DotOptions& options_;
  ModuleOrder order_;
  boost::unordered_flat_map<const Graph*, size_t> index_of_;
  std::vector<std::unique_ptr<Outline>> outlines_;  // by graph
  bool has_parts_ = false;
  const OutlineItem* part_ = nullptr;                     // the one that is drawn; null: all
  boost::unordered_flat_set<const OutlineItem*> opened_;  // that and those around it
  std::vector<bool> has_body_, is_box_;                   // by graph: how a function is drawn; neither: not at all
  boost::unordered_flat_map<const Node*, const Parameter*> alike_;  // parameters that one stands for
  boost::unordered_flat_set<const OutlineItem*> stubs_;
  boost::unordered_flat_set<const Node*> drawn_erased_;
  boost::unordered_flat_set<std::string> edges_;
  size_t next_repeat_ = 0;
  std::string out_;
};

}  // namespace

std::string to_dot(const Module& module, const DotOptions& options) { return DotWriter(module, options).write(); }

}  // namespace anfora::ir
