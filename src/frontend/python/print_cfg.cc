// Control flow graphs, and what is found of them, for people.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "frontend/python/dataflow.h"
#include "ir/dot_label.h"

namespace anfora::python {
namespace {

struct Line {
  std::string text;
  int number = 0;
};

std::vector<Line> lines_of(const Block& block) {
  std::vector<Line> lines;
  for (const Step& step : block.steps) {
    const Tree& tree = *step.tree;
    std::string text;
    switch (step.kind) {
      case StepKind::Run: text = unparse(tree); break;
      case StepKind::Iterate: text = fmt::format("iter({})", unparse(*tree.child("iter"))); break;
      case StepKind::Next: text = fmt::format("{} = next", unparse(*tree.child("target"))); break;
    }
    lines.push_back({text, tree.position.line});
  }
  switch (block.end) {
    case EndKind::Jump: break;
    case EndKind::Branch: lines.push_back({unparse(*block.tree) + "?", block.tree->position.line}); break;
    case EndKind::HasNext: lines.push_back({"another item?", block.tree->position.line}); break;
    case EndKind::Return:
      lines.push_back(block.tree ? Line{unparse(*block.tree), block.tree->position.line} : Line{"return", 0});
      break;
    case EndKind::Yield: lines.push_back({unparse(*block.tree), block.tree->position.line}); break;
    case EndKind::Raise: lines.push_back({unparse(*block.tree), block.tree->position.line}); break;
  }
  return lines;
}

std::string ways_on(const Block& block) {
  if (block.then < 0) return "";
  return block.otherwise < 0 ? fmt::format("→ B{}", block.then) : fmt::format("→ B{} | B{}", block.then, block.otherwise);
}

template <class Name>
std::string members(const Set& set, Name&& name) {
  std::vector<std::string> names;
  for (size_t i = set.find_first(); i != Set::npos; i = set.find_next(i)) names.push_back(name(i));
  return names.empty() ? "∅" : fmt::format("{}", fmt::join(names, " "));
}

// Characters, not bytes: names and the signs of sets are no ASCII.
size_t width_of(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = " ";
    for (size_t i = 0; i < row.size(); ++i) line += " " + row[i] + std::string(widths[i] - width_of(row[i]) + 1, ' ');
    text += line.erase(line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace

std::string print(const Cfg& cfg) {
  const std::vector<std::string>& locals = cfg.scope.locals;
  std::string text = fmt::format("{}\n\n", unparse(*cfg.function));
  std::vector<std::vector<std::string>> rows;
  for (size_t b = 0; b < cfg.blocks.size(); ++b) {
    const std::vector<Line> lines = lines_of(cfg.blocks[b]);
    for (size_t i = 0; i < std::max<size_t>(lines.size(), 1); ++i) {
      const bool is_last = i + 1 >= lines.size(), is_empty = lines.empty();
      rows.push_back({i == 0 ? fmt::format("B{}", b) : "", is_empty || !lines[i].number ? "" : std::to_string(lines[i].number),
                      is_empty ? "" : lines[i].text, is_last ? ways_on(cfg.blocks[b]) : ""});
    }
  }
  text += table(rows);

  const ReachingDefinitions reaching = find_reaching_definitions(cfg);
  rows = {{"definition", "of", "line", "by"}};
  for (size_t d = 0; d < reaching.definitions.size(); ++d) {
    const Definition& definition = reaching.definitions[d];
    std::string line, by;
    switch (definition.kind) {
      case Definition::Kind::Parameter: by = "parameter"; break;
      case Definition::Kind::Undefined: by = "no value yet"; break;
      case Definition::Kind::Statement:
        line = std::to_string(definition.tree->position.line);
        by = fmt::format("B{}", definition.block);
    }
    rows.push_back({fmt::format("d{}", d), locals[definition.variable], line, by});
  }
  text += "\n" + table(rows);

  auto definition = [](size_t d) { return fmt::format("d{}", d); };
  auto variable = [&](size_t v) { return locals[v]; };
  const LiveVariables live = find_live_variables(cfg);
  const std::vector<size_t> dominators = find_dominators(cfg);
  rows = {{"block", "DEDef", "DefKill", "Reaches"}};
  std::vector<std::vector<std::string>> more = {{"block", "UEVar", "VarKill", "live in", "live out", "dominator"}};
  for (size_t b = 0; b < cfg.blocks.size(); ++b) {
    const std::string name = fmt::format("B{}", b);
    rows.push_back({name, members(reaching.de_def[b], definition), members(reaching.def_kill[b], definition), members(reaching.reaches[b], definition)});
    more.push_back({name, members(live.ue_var[b], variable), members(live.var_kill[b], variable), members(live.live_in(b), variable),
                    members(live.live_out[b], variable), b == 0 ? "" : fmt::format("B{}", dominators[b])});
  }
  return text + "\n" + table(rows) + "\n" + table(more);
}

std::string to_dot(const Cfg& cfg) {
  std::string text =
      "digraph cfg {\n"
      "  node [shape=box, style=rounded, fontname=\"monospace\", fontsize=10];\n"
      "  edge [arrowsize=0.6, color=\"#555555\", fontname=\"monospace\", fontsize=9];\n";
  for (size_t b = 0; b < cfg.blocks.size(); ++b) {
    const Block& block = cfg.blocks[b];
    std::string label = fmt::format("B{}\n", b);
    for (const Line& line : lines_of(block)) label += line.text + "\n";
    text += fmt::format("  b{} [label={}];\n", b, ir::dot_quoted(label, 'l'));
    const bool is_choice = block.otherwise >= 0;
    if (block.then >= 0) text += fmt::format("  b{} -> b{}{};\n", b, block.then, is_choice ? " [label=\" yes \"]" : "");
    if (is_choice) text += fmt::format("  b{} -> b{} [label=\" no \"];\n", b, block.otherwise);
  }
  return text + "}\n";
}

}  // namespace anfora::python
