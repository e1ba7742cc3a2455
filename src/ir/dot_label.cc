#include "ir/dot_label.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "ir/dot.h"
#include "ir/print.h"
#include "ir/readable.h"

namespace anfora::ir {
namespace {

// Longer lines are cut, so that boxes stay small.
constexpr size_t kLongestName = 30, kLongestLine = 40;
// Constants with more elements are shown by their type.
constexpr int64_t kMostElements = 4;
// Operators of a part that are named.
constexpr size_t kMostOperators = 3;

bool is_inside_of_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// "/model/layers.0/attn/q_proj/MatMul" of a MatMul: "attn/q_proj". The operator is on the box already.
std::string short_name(std::string_view name, std::string_view op) {
  if (size_t slash = name.rfind('/'); slash != std::string_view::npos && slash > 0) {
    std::string_view end = name.substr(slash + 1);
    if (end.starts_with(op)) name = name.substr(0, slash);
  }
  if (size_t slash = name.rfind('/'); slash != std::string_view::npos && slash > 0) {
    slash = name.rfind('/', slash - 1);
    if (slash != std::string_view::npos) name = name.substr(slash + 1);
  }
  return dot_shortened(std::string(name), kLongestName);
}

std::string type_line(const Node& node, const DotOptions& options) {
  return options.types && node.type() ? "\n" + dot_shortened(readable(node.type()), kLongestLine) : "";
}

// "W = f32[64, 3, 3, 3]": by the formal name of the operand.
std::string constant_line(const Apply& node, size_t i) {
  const std::vector<Formal>& formals = node.op().inputs;
  const size_t last = formals.size() - 1;
  std::string name = i < formals.size() ? formals[i].name : fmt::format("#{}", i);
  if (!formals.empty() && formals[last].arity == Formal::Arity::Variadic && i >= last) {
    name = fmt::format("{}[{}]", formals[last].name, i - last);
  }
  const Tensor& tensor = node.input(i)->as_value()->tensor();
  std::string value = tensor.size() <= kMostElements ? print(tensor) : to_string(node.input(i)->type());
  return dot_shortened(fmt::format("{} = {}", name, value), kLongestLine);
}

void collect(const OutlineItem& item, size_t times, std::map<std::string_view, size_t>& counts,
             std::vector<const Apply*>& nodes) {
  if (item.kind == OutlineItem::Kind::Node) {
    if (item.node->primitive() != Primitive::Operation) return;
    counts[item.node->op().qualified] += times;
    nodes.push_back(item.node);
    return;
  }
  for (const OutlineItem* inner : item.items) collect(*inner, times * item.count, counts, nodes);
}

std::string_view name_of(const Apply& node) {
  return node.location() && !node.location()->name.empty() ? node.location()->name : node.name();
}

// What the names of the nodes have in common, up to a separator.
std::string common_scope(const std::vector<const Apply*>& nodes) {
  std::string_view common;
  bool is_first = true;
  for (const Apply* node : nodes) {
    std::string_view name = name_of(*node);
    if (name.empty()) continue;
    if (is_first) common = name;
    is_first = false;
    size_t same = 0;
    while (same < common.size() && same < name.size() && common[same] == name[same]) ++same;
    common = common.substr(0, same);
  }
  const size_t end = common.find_last_of("/.");
  return end == std::string_view::npos ? "" : std::string(common.substr(0, end));
}

}  // namespace

std::string dot_quoted(std::string_view text, char line_end) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '\n') {
      out += '\\';
      out += line_end;
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out += '"';
}

std::string dot_shortened(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  size_t begin = most / 2, end = text.size() - (most - begin);
  while (begin > 0 && is_inside_of_character(text[begin])) --begin;
  while (end < text.size() && is_inside_of_character(text[end])) ++end;
  return text.substr(0, begin) + "…" + text.substr(end);
}

std::string_view dot_colour(const Apply& node) {
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

std::string dot_label(const Apply& node, const DotOptions& options) {
  std::string label = node.op().qualified;
  if (node.primitive() == Primitive::MakeTuple) label = "( , )";
  if (node.primitive() == Primitive::TupleGetItem) label = fmt::format("[{}]", node.attributes().get_int("index", -1));
  if (!node.name().empty()) label += "\n" + short_name(node.name(), node.op().name);
  if (options.attributes && node.primitive() == Primitive::Operation && !node.attributes().empty()) {
    std::string text = print(node.attributes());
    label += "\n" + dot_shortened(text.substr(1, text.size() - 2), kLongestLine);
  }
  for (size_t i = 0; i < node.num_inputs(); ++i) {
    if (node.input(i) && constant_tensor(node.input(i))) label += "\n" + constant_line(node, i);
  }
  return label + type_line(node, options);
}

std::string dot_label(const Parameter& parameter, const DotOptions& options) {
  std::string label = parameter.name().empty() ? fmt::format("%{}", parameter.id()) : std::string(parameter.name());
  return dot_shortened(label, kLongestLine) + type_line(parameter, options);
}

std::string dot_label(const OutlineItem& part) {
  std::map<std::string_view, size_t> counts;
  std::vector<const Apply*> nodes;
  collect(part, 1, counts, nodes);
  std::vector<std::pair<std::string_view, size_t>> most(counts.begin(), counts.end());
  std::ranges::stable_sort(most, std::greater(), &std::pair<std::string_view, size_t>::second);
  std::string operators;
  for (size_t i = 0; i < std::min(most.size(), kMostOperators); ++i) {
    operators += fmt::format("{}{} {}", i ? ", " : "", most[i].second, most[i].first);
  }
  if (most.size() > kMostOperators) operators += ", …";
  std::string label = fmt::format("part {}: {} nodes\n{}", part.number, part.num_nodes, operators);
  if (std::string scope = common_scope(nodes); !scope.empty()) label += "\n" + dot_shortened(scope, kLongestLine);
  return label;
}

std::string dot_tooltip(const Apply& node) {
  std::string text = describe(node);
  return node.location() ? fmt::format("{}\n{}", text, to_string(*node.location())) : text;
}

}  // namespace anfora::ir
