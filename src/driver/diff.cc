#include "driver/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>

#include "driver/interface.h"
#include "ir/order.h"
#include "ir/print.h"
#include "ir/readable.h"

namespace anfora::driver {
namespace {

using namespace ir;

bool is_operator(const Apply& node) { return node.primitive() == Primitive::Operation; }

std::string_view name_of(const Apply& node) {
  return node.location() && !node.location()->name.empty() ? node.location()->name : node.name();
}

// Operators in execution order, each with what tells it from all others of its module; empty where it has no name.
struct Named {
  const Apply* node;
  std::string key;
};

std::vector<Named> named_nodes(const Module& module) {
  std::vector<Named> nodes;
  boost::unordered_flat_map<std::string, size_t> times;
  for (const GraphOrder& graph : topological_order(module).graphs) {
    for (const Apply* node : graph.nodes) {
      if (!is_operator(*node)) continue;
      std::string key;
      if (std::string_view name = name_of(*node); !name.empty()) {
        key = fmt::format("{}/{}", graph.graph->name(), name);
        if (size_t n = times[key]++) key += fmt::format("#{}", n);
      }
      nodes.push_back({node, std::move(key)});
    }
  }
  return nodes;
}

// An operand by its name, or by what it is.
std::string operand_text(const Node* node) {
  if (const Apply* apply = node->as_apply(); apply && apply->primitive() == Primitive::TupleGetItem) {
    return fmt::format("{}[{}]", operand_text(apply->input(0)), apply->attributes().require_int("index"));
  }
  const Tensor* tensor = constant_tensor(node);
  if (!tensor) return node->is_value() && !constant_function(node) ? "none" : describe(*node);
  return fmt::format("constant {}", readable(node->type()));
}

// What has the same name is the same operand: that it is another operator now is told where it stands itself.
bool same_operand(const Node* a, const Node* b) {
  const Tensor *x = constant_tensor(a), *y = constant_tensor(b);
  if (x && y) return Tensor::identical(*x, *y);
  const Apply *p = a->as_apply(), *q = b->as_apply();
  if (p && q && is_operator(*p) && is_operator(*q) && !name_of(*p).empty()) return name_of(*p) == name_of(*q);
  return operand_text(a) == operand_text(b);
}

// Without those that have their default.
AttributeSet stated(const Apply& node) {
  AttributeSet set = node.attributes();
  for (const AttributeDeclaration& declared : node.op().attributes) {
    const AttributeValue* value = set.find(declared.name);
    bool is_default =
        value && declared.otherwise && AttributeSet{{"", *value}} == AttributeSet{{"", *declared.otherwise}};
    if (is_default) set = set.without(declared.name);
  }
  return set;
}

std::vector<std::string> changes_of(const Apply& a, const Apply& b) {
  std::vector<std::string> changes;
  if (AttributeSet x = stated(a), y = stated(b); !(x == y)) {
    changes.push_back(fmt::format("attributes {} → {}", x.empty() ? "{}" : print(x), y.empty() ? "{}" : print(y)));
  }
  if (a.num_inputs() != b.num_inputs()) {
    changes.push_back(fmt::format("{} operands → {}", a.num_inputs(), b.num_inputs()));
  }
  for (size_t i = 0; i < std::min(a.num_inputs(), b.num_inputs()); ++i) {
    if (same_operand(a.input(i), b.input(i))) continue;
    changes.push_back(fmt::format("operand {}: {} → {}", i, operand_text(a.input(i)), operand_text(b.input(i))));
  }
  std::string before = readable(a.type()), after = readable(b.type());
  if (before != after) changes.push_back(fmt::format("type {} → {}", before, after));
  return changes;
}

std::vector<std::string> texts_of(const NamedTypes& values) {
  std::vector<std::string> texts;
  for (const auto& [name, type] : values) texts.push_back(fmt::format("{}: {}", name, readable(type)));
  return texts;
}

void compare_interfaces(std::string_view what, const NamedTypes& a, const NamedTypes& b,
                        std::vector<std::string>& changes) {
  using Texts = std::vector<std::string>;
  auto add_missing = [&](std::string_view verb, const Texts& these, const Texts& others) {
    for (const std::string& entry : these) {
      if (!std::ranges::count(others, entry)) changes.push_back(fmt::format("{} {}: {}", what, verb, entry));
    }
  };
  const Texts before = texts_of(a), after = texts_of(b);
  add_missing("gone", before, after);
  add_missing("new", after, before);
}

}  // namespace

Difference diff(const Module& before, const Module& after) {
  Difference difference;
  std::vector<Named> a = named_nodes(before), b = named_nodes(after);
  boost::unordered_flat_map<std::string_view, const Apply*> by_key;
  for (const Named& n : b) {
    ++difference.operators[n.node->op().qualified].after;
    if (!n.key.empty()) by_key.emplace(n.key, n.node);
  }
  boost::unordered_flat_set<const Apply*> met;
  for (const Named& n : a) {
    ++difference.operators[n.node->op().qualified].before;
    auto found = n.key.empty() ? by_key.end() : by_key.find(n.key);
    if (found == by_key.end()) {
      difference.gone.push_back(describe(*n.node));
      continue;
    }
    met.insert(found->second);
    std::vector<std::string> changes = changes_of(*n.node, *found->second);
    if (&n.node->op() != &found->second->op() && n.node->op().qualified != found->second->op().qualified) {
      difference.changed.push_back({describe(*n.node), describe(*found->second), {}});
    } else if (!changes.empty()) {
      difference.changed.push_back({describe(*n.node), describe(*found->second), std::move(changes)});
    } else {
      ++difference.same;
    }
  }
  for (const Named& n : b) {
    if (!met.contains(n.node)) difference.made.push_back(describe(*n.node));
  }
  compare_interfaces("input", inputs_of(before), inputs_of(after), difference.interface_changes);
  compare_interfaces("output", outputs_of(before), outputs_of(after), difference.interface_changes);
  return difference;
}

namespace {

constexpr size_t kFew = 10;  // of a list

NodesOfFiles nodes_of(const Difference& difference) {
  NodesOfFiles nodes = {};
  for (const auto& [name, count] : difference.operators) {
    nodes.before += static_cast<size_t>(count.before);
    nodes.after += static_cast<size_t>(count.after);
  }
  return nodes;
}

std::string list_text(std::string_view title, std::string_view color, char mark, const std::vector<std::string>& list,
                      bool all, const Style& style) {
  if (list.empty()) return "";
  std::string text = fmt::format("\n{}{}{} {}\n", style.bold, title, style.plain, list.size());
  const size_t shown = all ? list.size() : std::min(kFew, list.size());
  for (size_t i = 0; i < shown; ++i) text += fmt::format("  {}{}{} {}\n", color, mark, style.plain, list[i]);
  if (shown < list.size()) text += fmt::format("  … and {} more\n", list.size() - shown);
  return text;
}

}  // namespace

std::string to_text(const Difference& difference, const NodesOfFiles& files, bool all, const Style& style) {
  const auto [before, after] = nodes_of(difference);
  std::string text =
      fmt::format("{} → {} nodes: {} as they were, {} changed, {} gone, {} new\n", files.before, files.after,
                  difference.same, difference.changed.size(), difference.gone.size(), difference.made.size());
  if (files.before != before || files.after != after) {
    text += fmt::format(
        "{}({} → {} without Constant nodes, which are compared as operands, and control flow, as functions){}\n",
        style.dim, before, after, style.plain);
  }
  if (difference.empty()) return text;
  for (const std::string& change : difference.interface_changes) text += change + '\n';
  text += fmt::format("\n{}operators{}\n", style.bold, style.plain);
  for (const auto& [name, count] : difference.operators) {
    if (count.before == count.after) continue;
    text += fmt::format("  {:<28} {:>6} → {:<6} {}\n", name, count.before, count.after,
                        signed_count(count.after - count.before));
  }
  std::vector<std::string> changed;
  for (const ChangedNode& node : difference.changed) {
    std::string& told =
        changed.emplace_back(node.before == node.after ? node.before : fmt::format("{} → {}", node.before, node.after));
    for (const std::string& change : node.changes) told += fmt::format("\n      {}", change);
  }
  return text + list_text("changed", "", '~', changed, all, style) +
         list_text("gone", style.red, '-', difference.gone, all, style) +
         list_text("new", style.green, '+', difference.made, all, style);
}

std::string to_text(const Difference& difference) { return to_text(difference, nodes_of(difference)); }

}  // namespace anfora::driver
