#include "driver/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "anfora/error.h"
#include "driver/rules.h"
#include "passes/pass.h"

namespace anfora::driver {
namespace {

using rewrite::Remark;

constexpr size_t kExamples = 3;  // of one rule

std::string nodes_text(const Remark& remark) {
  if (remark.before.nodes == 0 && remark.after.nodes == 0) return "";
  return fmt::format(" ({} → {} nodes)", remark.before.nodes, remark.after.nodes);
}

// ", −12 nodes, −8.2 GFLOP, −98.4 MB" of results, each where it is some.
std::string change_text(const rewrite::Work& before, const rewrite::Work& after) {
  const int nodes = after.nodes - before.nodes;
  const double flops = after.flops - before.flops, bytes = after.bytes - before.bytes;
  std::string text;
  auto sign = [](double x) { return x < 0 ? "−" : "+"; };
  if (nodes != 0) text += fmt::format(", {} nodes", signed_count(nodes));
  if (flops != 0) text += fmt::format(", {}{}", sign(flops), human_flops(std::abs(flops)));
  if (bytes != 0) text += fmt::format(", {}{}", sign(bytes), human_bytes(static_cast<int64_t>(std::abs(bytes))));
  return text;
}

// Of the file that would be written; of the module, where it cannot be written.
size_t nodes_written(const ir::Module& module, const OptimizeOptions& options) {
  try {
    return describe_saved(module, save_options(options)).nodes;
  } catch (const Error&) {
    return module.num_operations();
  }
}

std::string rule_text(const ExplainedRule& rule, const Style& style) {
  const double ms = rule.statistics.seconds * 1e3;
  std::string text = fmt::format("  {:<36} {}{}{}\n", rule.name, count_text(rule.statistics),
                                 change_text(rule.before, rule.after), ms < 1 ? "" : fmt::format(", in {:.0f} ms", ms));
  if (!rule.doc.empty()) text += fmt::format("    {}{}{}\n", style.dim, rule.doc, style.plain);
  for (const std::string& example : rule.examples) text += fmt::format("      {}\n", example);
  if (static_cast<size_t>(rule.statistics.fired) > rule.examples.size()) text += "      …\n";
  return text;
}

// `known` are the rules that there were, with those of passes.
Explanation explain(const pipeline::OptimizeReport& report, const rewrite::RuleSet& known) {
  Explanation explanation{.nodes_before = report.nodes_before,
                          .nodes_after = report.nodes_after,
                          .rounds = report.rounds,
                          .remarks = report.remarks.all(),
                          .statistics = report.remarks.statistics()};
  std::map<std::string_view, ExplainedRule> rules;
  for (const Remark& remark : explanation.remarks) {
    if (remark.outcome != Remark::Outcome::Applied) continue;
    auto [at, is_new] = rules.try_emplace(remark.rule);
    ExplainedRule& rule = at->second;
    if (is_new) {
      const rewrite::Equation* equation = known.find(remark.rule);
      rule.name = remark.rule;
      rule.doc = equation ? equation->doc : "";
      rule.theme = equation ? equation->theme : fmt::format("pass {}", remark.pass);
    }
    rule.before += remark.before;
    rule.after += remark.after;
    if (rule.examples.size() == kExamples) continue;
    rule.examples.push_back(fmt::format("{}{}{}{}", place_of(remark), remark.message.empty() ? "" : ": ",
                                        remark.message, nodes_text(remark)));
  }
  for (const auto& [name, statistics] : explanation.statistics) {
    if (auto rule = rules.find(name); rule != rules.end()) rule->second.statistics = statistics;
  }
  for (auto& [name, rule] : rules) explanation.rules.push_back(std::move(rule));
  std::ranges::stable_sort(explanation.rules, [](const ExplainedRule& a, const ExplainedRule& b) {
    return a.theme != b.theme ? a.theme < b.theme : a.statistics.fired > b.statistics.fired;
  });
  return explanation;
}

}  // namespace

Explanation explain(ir::Module& module, const OptimizeOptions& options) {
  const auto known = all_rules_with(module.context(), options.rules);
  const size_t nodes_before = nodes_written(module, options);
  OptimizeOptions with_remarks = options;
  with_remarks.keep_remarks = true;
  Explanation explanation = explain(optimize(module, with_remarks), *known);
  explanation.nodes_before = nodes_before;
  explanation.nodes_after = nodes_written(module, options);
  return explanation;
}

size_t Explanation::refused() const {
  return static_cast<size_t>(std::ranges::count(remarks, Remark::Outcome::Refused, &Remark::outcome));
}

std::vector<const Remark*> about_node(const Explanation& explanation, std::string_view node) {
  std::vector<const Remark*> found;
  for (const Remark& remark : explanation.remarks) {
    if (remark.node.find(node) != std::string::npos || remark.location.find(node) != std::string::npos) {
      found.push_back(&remark);
    }
  }
  return found;
}

std::string to_text(const Explanation& explanation, std::string_view title, const Style& style) {
  std::string text =
      fmt::format("{}{}{}: {} → {} nodes in {}\n", style.bold, title, style.plain, explanation.nodes_before,
                  explanation.nodes_after, counted(explanation.rounds, "round"));
  const std::string* theme = nullptr;
  for (const ExplainedRule& rule : explanation.rules) {
    if (!theme || rule.theme != *theme) text += fmt::format("\n{}{}{}\n", style.bold, rule.theme, style.plain);
    theme = &rule.theme;
    text += rule_text(rule, style);
  }
  if (const size_t refused = explanation.refused()) {
    text += fmt::format("\n{} refused, not profitable or not possible\n", counted(refused, "rewrite"));
  }
  return text;
}

std::string to_text(const Remark& remark, const Style& style) {
  std::string_view verb = remark.outcome == Remark::Outcome::Applied   ? "rewritten by"
                          : remark.outcome == Remark::Outcome::Refused ? "refused by"
                                                                       : "not by";
  return fmt::format("{}: {} {}{}{}{}{}{}", place_of(remark), verb, style.bold, remark.rule, style.plain,
                     remark.message.empty() ? "" : ": ", remark.message, nodes_text(remark));
}

std::string place_of(const Remark& remark) {
  size_t quote = remark.node.find('\'');
  std::string name = quote == std::string::npos ? "" : remark.node.substr(quote + 1, remark.node.size() - quote - 2);
  bool repeats = !name.empty() && remark.location.starts_with(name + " (");
  if (repeats) return remark.node + remark.location.substr(name.size());
  return remark.location.empty() ? remark.node : fmt::format("{} at {}", remark.node, remark.location);
}

std::string count_text(const rewrite::RuleStatistics& statistics) {
  if (statistics.tried <= statistics.fired) return fmt::format("{}", statistics.fired);
  return fmt::format("{} of {} tried", statistics.fired, statistics.tried);
}

}  // namespace anfora::driver
