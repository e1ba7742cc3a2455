#include "pipeline/save_graphs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <system_error>

#include "anfora/error.h"
#include "ir/dot.h"
#include "ir/print.h"
#include "ir/text_file.h"
#include "pipeline/draw.h"
#include "support/atomic_file.h"

namespace anfora::pipeline {
namespace {

// Of one rule in one stage, the index lists so many nodes; a page with all of a large model's would not open.
constexpr size_t kMostListed = 50;

void write(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

std::string escaped(std::string_view text) {
  std::string html;
  for (char c : text) {
    switch (c) {
      case '&': html += "&amp;"; break;
      case '<': html += "&lt;"; break;
      case '>': html += "&gt;"; break;
      case '"': html += "&quot;"; break;
      default: html += c;
    }
  }
  return html;
}

constexpr std::string_view kHead = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<style>
  :root { color-scheme: light dark; }
  body { font: 15px/1.5 system-ui, sans-serif; max-width: 80em; margin: 2em auto; padding: 0 1em; }
  table { border-collapse: collapse; width: 100%; }
  th { text-align: left; font-weight: 600; }
  th, td { padding: .4em .8em .4em 0; border-bottom: 1px solid #8884; vertical-align: top; }
  .number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
  .bar { display: block; height: .3em; background: #4a7fb5; margin-top: .3em; }
  .quiet { opacity: .65; }
  img { width: 20em; max-height: 20em; object-fit: cover; object-position: top; background: white; }
  summary { cursor: pointer; }
  li { overflow-wrap: anywhere; }
</style>
)";

}  // namespace

GraphSaver::GraphSaver(std::filesystem::path folder, const rewrite::Remarks& remarks, const rewrite::RuleSet& rules)
    : folder_(std::move(folder)), remarks_(remarks), rules_(rules) {
  std::error_code failed;
  std::filesystem::create_directories(folder_, failed);
  if (failed) throw Error(ErrorCode::Io, fmt::format("the folder '{}': {}", folder_.string(), failed.message()));
}

void GraphSaver::save(const TextStage& stage) {
  const std::string file = fmt::format("{:02}_{}.{}", num_texts_++, stage.name, stage.ending);
  write(folder_ / file, stage.text);
  texts_ += fmt::format("<li><a href=\"{0}\">{0}</a> <span class=\"quiet\">{1}</span></li>\n", escaped(file), escaped(stage.doc));
}

void GraphSaver::save(const ir::Module& module, std::string_view stage, std::string_view doc, size_t round) {
  std::string name = fmt::format("{:02}_{}", num_texts_ + stages_.size(), stage);
  write(folder_ / (name + ".ir"), ir::print(module, {.sidecar = &constants_}));
  const std::string dot = ir::to_dot(module);
  write(folder_ / (name + ".dot"), dot);
  const std::optional<std::string> svg = draw_svg(dot);
  if (svg) write(folder_ / (name + ".svg"), *svg);
  size_t seen = stages_.empty() ? 0 : stages_.back().end_of_remarks;
  stages_.push_back({std::string(stage), std::string(doc), name, round, module.num_operations(), svg.has_value(), seen,
                     remarks_.all().size()});
}

void GraphSaver::finish(const ir::Module& module) {
  if (!constants_.empty()) ir::write_sidecar(constants_, folder_ / ir::kSharedConstants);
  write(folder_ / "index.html", index(module));
}

// The index -----------------------------------------------------------------------------------------------------------

std::string GraphSaver::index(const ir::Module& module) const {
  const std::string& graph = module.metadata().graph_name;
  const std::string title = escaped(graph.empty() ? std::string(module.main()->name()) : graph);
  size_t most_nodes = 1;
  for (const Stage& stage : stages_) most_nodes = std::max(most_nodes, stage.nodes);
  std::string html(kHead);
  html += fmt::format("<title>{}: stages</title>\n</head>\n<body>\n<h1>{}</h1>\n", title, title);
  if (!stages_.empty()) {
    html += fmt::format("<p>{} → {} nodes in {} stages. Stages that changed nothing are left out.{}</p>\n",
                        stages_.front().nodes, stages_.back().nodes, stages_.size(),
                        stages_.front().has_picture ? " A picture opens in full size when it is clicked."
                                                    : " Pictures need Graphviz' program <code>dot</code>.");
  }
  if (!texts_.empty()) html += "<ul>\n" + texts_ + "</ul>\n";
  html += "<table>\n<tr><th>Stage</th><th class=\"number\">Nodes</th><th>Rewrites</th><th>Graph</th></tr>\n";
  for (size_t i = 0; i < stages_.size(); ++i) {
    append_stage(html, stages_[i], i == 0 ? nullptr : &stages_[i - 1], most_nodes);
  }
  html += "</table>\n</body>\n</html>\n";
  return html;
}

void GraphSaver::append_stage(std::string& html, const Stage& stage, const Stage* before, size_t most_nodes) const {
  html += fmt::format("<tr>\n<td>{}", escaped(stage.name));
  if (!stage.doc.empty()) {
    html += fmt::format("<br><span class=\"quiet\">{}", escaped(stage.doc));
    if (stage.round > 0) html += fmt::format(", round {}", stage.round);
    html += "</span>";
  }
  html += "</td>\n<td class=\"number\">";
  if (before) html += fmt::format("{} → ", before->nodes);
  html += fmt::format("{}<span class=\"bar\" style=\"width: {:.1f}%\"></span></td>\n<td>", stage.nodes,
                      100.0 * static_cast<double>(stage.nodes) / static_cast<double>(most_nodes));
  append_rewrites(html, stage);
  html += "</td>\n<td>";
  if (stage.has_picture) {
    html +=
        fmt::format("<a href=\"{0}.svg\"><img loading=\"lazy\" src=\"{0}.svg\" alt=\"the graph after {1}\"></a><br>",
                    escaped(stage.file), escaped(stage.name));
  }
  html += fmt::format("<a href=\"{0}.ir\">.ir</a> <a href=\"{0}.dot\">.dot</a></td>\n</tr>\n", escaped(stage.file));
}

// By rule, in the order of their first rewrite.
void GraphSaver::append_rewrites(std::string& html, const Stage& stage) const {
  std::vector<std::pair<std::string_view, std::vector<const rewrite::Remark*>>> by_rule;
  std::map<std::string_view, size_t> place;
  for (size_t i = stage.first_remark; i < stage.end_of_remarks; ++i) {
    const rewrite::Remark& remark = remarks_.all()[i];
    if (remark.outcome != rewrite::Remark::Outcome::Applied) continue;
    auto [at, is_new] = place.emplace(remark.rule, by_rule.size());
    if (is_new) by_rule.push_back({remark.rule, {}});
    by_rule[at->second].second.push_back(&remark);
  }
  for (const auto& [rule, remarks] : by_rule) {
    html +=
        fmt::format("<details><summary>{} <span class=\"quiet\">×{}</span></summary>\n", escaped(rule), remarks.size());
    const rewrite::Equation* equation = rules_.find(rule);
    auto function = std::ranges::find(rules_.functions(), rule, [](const rewrite::Rule* r) { return r->name; });
    std::string_view doc = equation                               ? std::string_view(equation->doc)
                           : function != rules_.functions().end() ? (*function)->equation
                                                                  : std::string_view();
    if (!doc.empty()) html += fmt::format("<p class=\"quiet\">{}</p>\n", escaped(doc));
    html += "<ul>\n";
    for (size_t i = 0; i < std::min(remarks.size(), kMostListed); ++i) {
      html += fmt::format("<li>{}", escaped(remarks[i]->node));
      if (!remarks[i]->message.empty()) html += fmt::format(": {}", escaped(remarks[i]->message));
      html += "</li>\n";
    }
    if (remarks.size() > kMostListed) html += fmt::format("<li>and {} more</li>\n", remarks.size() - kMostListed);
    html += "</ul></details>\n";
  }
}

}  // namespace anfora::pipeline
