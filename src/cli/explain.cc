// `anfora explain`: what the optimizer does to a model, by theme and rule, and what it leaves and why. Nothing is written.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "anfora/error.h"
#include "cli/command.h"
#include "cli/rules.h"
#include "cli/text.h"
#include "driver/model.h"
#include "pipeline/pipeline.h"

namespace anfora::cli {
namespace {

using rewrite::Remark;
using Outcome = Remark::Outcome;

constexpr size_t kExamples = 3;  // of one rule
constexpr size_t kReasons = 5;   // why a rule did not fire, with examples of each

struct ExplainOptions {
  std::string input, node, why_not;
  std::vector<std::string> rules;
  rewrite::Promise math = rewrite::Promise::Real;
  bool json = false;
};

// "Conv 'c1' (model.onnx: node 3)": the location repeats the name of most nodes.
std::string place(const Remark& remark) {
  size_t quote = remark.node.find('\'');
  std::string name = quote == std::string::npos ? "" : remark.node.substr(quote + 1, remark.node.size() - quote - 2);
  bool repeats = !name.empty() && remark.location.starts_with(name + " (");
  if (repeats) return remark.node + remark.location.substr(name.size());
  return remark.location.empty() ? remark.node : fmt::format("{} at {}", remark.node, remark.location);
}

std::string nodes_text(const Remark& remark) {
  if (remark.before.nodes == 0 && remark.after.nodes == 0) return "";
  return fmt::format(" ({} → {} nodes)", remark.before.nodes, remark.after.nodes);
}

// ", −12 nodes, −8.2 GFLOP, −98.4 MB" of results, each where it is some.
std::string change_text(int nodes, double flops, double bytes) {
  std::string text;
  auto sign = [](double x) { return x < 0 ? "−" : "+"; };
  if (nodes != 0) text += fmt::format(", {} nodes", signed_count(nodes));
  if (flops != 0) text += fmt::format(", {}{}", sign(flops), human_flops(std::abs(flops)));
  if (bytes != 0) text += fmt::format(", {}{}", sign(bytes), human_bytes(static_cast<int64_t>(std::abs(bytes))));
  return text;
}

// What a rule did to a model.
struct Work {
  std::string_view pass;
  rewrite::RuleStatistics statistics;
  rewrite::Work before, after;  // of all applications that went and that came
  std::vector<const Remark*> examples;
};

std::string count_text(const rewrite::RuleStatistics& statistics) {
  if (statistics.tried <= statistics.fired) return fmt::format("{}", statistics.fired);
  return fmt::format("{} of {} tried", statistics.fired, statistics.tried);
}

class Explanation {
 public:
  Explanation(const ExplainOptions& options, const rewrite::RuleSet& rules, const pipeline::OptimizeReport& report)
      : options_(options), rules_(rules), report_(report) {
    for (const Remark& remark : report.remarks.all()) {
      if (remark.outcome != Outcome::Applied) continue;
      Work& work = work_[remark.rule];
      work.pass = remark.pass;
      work.before += remark.before;
      work.after += remark.after;
      if (work.examples.size() < kExamples) work.examples.push_back(&remark);
    }
    for (const auto& [rule, statistics] : report.remarks.statistics()) {
      if (auto known = work_.find(rule); known != work_.end()) known->second.statistics = statistics;
    }
  }

  void print_json() const {
    nlohmann::ordered_json json = {{"model", options_.input},
                                   {"nodes_before", report_.nodes_before},
                                   {"nodes_after", report_.nodes_after},
                                   {"rounds", report_.rounds}};
    for (const auto& [rule, statistics] : report_.remarks.statistics()) {
      json["rules"][std::string(rule)] = {
          {"tried", statistics.tried}, {"fired", statistics.fired}, {"seconds", statistics.seconds}};
    }
    for (const Remark& remark : report_.remarks.all()) json["remarks"].push_back(to_json(remark));
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  }

  // All rules that fired, by theme; those that fired most come first.
  void print_all() const {
    fmt::print("{}{}{}: {} → {} nodes in {} rounds\n", bold(),
               std::filesystem::path(options_.input).filename().string(), plain(), report_.nodes_before,
               report_.nodes_after, report_.rounds);
    for (const auto& [theme, rules] : by_theme()) {
      fmt::print("\n{}{}{}\n", bold(), theme, plain());
      for (const auto& [name, work] : rules) print_rule(name, *work);
    }
    size_t left = 0;
    for (const Remark& remark : report_.remarks.all()) left += remark.outcome == Outcome::Refused;
    if (left > 0)
      fmt::print("\n{} rewrites were refused, since they do not pay or cannot be done: --why-not RULE tells\n", left);
  }

  void print_node() const {
    bool found = false;
    for (const Remark& remark : report_.remarks.all()) {
      bool about = remark.node.find(options_.node) != std::string::npos ||
                   remark.location.find(options_.node) != std::string::npos;
      if (!about) continue;
      found = true;
      std::string_view verb = remark.outcome == Outcome::Applied   ? "rewritten by"
                              : remark.outcome == Outcome::Refused ? "refused by"
                                                                   : "not by";
      fmt::print("{}: {} {}{}{}{}{}{}\n", place(remark), verb, bold(), remark.rule, plain(),
                 remark.message.empty() ? "" : ": ", remark.message, nodes_text(remark));
    }
    if (!found)
      fmt::print("nothing was done to a node that is called {}, and nothing was nearly done\n", options_.node);
  }

  void print_why_not() const {
    const rewrite::Equation* equation = find_rule(rules_, options_.why_not);
    if (equation) fmt::print("{}\n", equation->text);
    auto statistics = report_.remarks.statistics().find(options_.why_not);
    bool tried = statistics != report_.remarks.statistics().end();
    if (tried) fmt::print("fired {}\n", count_text(statistics->second));
    // By reason, each node once.
    std::map<std::string, std::vector<std::string>> reasons;
    for (const Remark& remark : report_.remarks.all()) {
      if (remark.rule != options_.why_not || remark.outcome == Outcome::Applied) continue;
      std::vector<std::string>& nodes = reasons[remark.message];
      if (!std::ranges::count(nodes, place(remark))) nodes.push_back(place(remark));
    }
    if (reasons.empty() && (!tried || statistics->second.fired == 0)) {
      fmt::print("{}\n", tried
                             ? "nodes have its operators, but not its pattern: other operands, attributes or constants"
                             : "no node has the operators of its pattern");
    }
    std::vector<std::pair<std::string, std::vector<std::string>>> sorted(reasons.begin(), reasons.end());
    std::ranges::stable_sort(sorted, std::greater(), [](const auto& entry) { return entry.second.size(); });
    for (const auto& [reason, nodes] : sorted) {
      fmt::print("{}{}{}: {} nodes\n", bold(), reason, plain(), nodes.size());
      for (size_t i = 0; i < std::min(nodes.size(), kReasons); ++i) fmt::print("  {}\n", nodes[i]);
      if (nodes.size() > kReasons) fmt::print("  …\n");
    }
  }

  static nlohmann::ordered_json to_json(const Remark& remark) {
    return {{"pass", remark.pass},
            {"rule", remark.rule},
            {"outcome", to_string(remark.outcome)},
            {"node", remark.node},
            {"location", remark.location},
            {"message", remark.message},
            {"nodes_before", remark.before.nodes},
            {"nodes_after", remark.after.nodes},
            {"flops_saved", remark.before.flops - remark.after.flops},
            {"bytes_saved", remark.before.bytes - remark.after.bytes}};
  }

 private:
  using Rules = std::vector<std::pair<std::string_view, const Work*>>;

  std::map<std::string, Rules> by_theme() const {
    std::map<std::string, Rules> themes;
    for (const auto& [name, work] : work_) {
      auto equation = std::ranges::find(rules_.equations(), name, &rewrite::Equation::name);
      themes[equation == rules_.equations().end() ? fmt::format("pass {}", work.pass) : equation->theme].emplace_back(
          name, &work);
    }
    for (auto& [theme, rules] : themes) {
      std::ranges::stable_sort(rules, std::greater(), [](const auto& rule) { return rule.second->statistics.fired; });
    }
    return themes;
  }

  void print_rule(std::string_view name, const Work& work) const {
    std::string saved = change_text(work.after.nodes - work.before.nodes, work.after.flops - work.before.flops,
                                    work.after.bytes - work.before.bytes);
    auto equation = std::ranges::find(rules_.equations(), name, &rewrite::Equation::name);
    const double ms = work.statistics.seconds * 1e3;
    std::string time = ms < 1 ? "" : fmt::format(", in {:.0f} ms", ms);
    fmt::print("  {:<36} {}{}{}\n", name, count_text(work.statistics), saved, time);
    if (equation != rules_.equations().end()) fmt::print("    {}{}{}\n", dim(), equation->doc, plain());
    for (const Remark* remark : work.examples) {
      fmt::print("      {}{}{}{}\n", place(*remark), remark->message.empty() ? "" : ": ", remark->message,
                 nodes_text(*remark));
    }
    if (static_cast<size_t>(work.statistics.fired) > work.examples.size()) fmt::print("      …\n");
  }

  const ExplainOptions& options_;
  const rewrite::RuleSet& rules_;
  const pipeline::OptimizeReport& report_;
  std::map<std::string_view, Work> work_;
};

int run_explain(const ExplainOptions& options) {
  driver::LoadedModel model = driver::load_model(options.input);
  auto rules = rules_with(model.module->context(), options.rules);
  if (!options.why_not.empty()) find_rule(*rules, options.why_not);  // before the work, where there is none
  pipeline::OptimizeOptions passes;
  passes.passes.math = options.math;
  passes.passes.rules = rules;
  passes.passes.has_operator = driver::expressible(*model.module);
  passes.passes.is_accurate = driver::is_accurate;
  passes.keep_remarks = true;
  pipeline::OptimizeReport report = pipeline::optimize(*model.module, passes);
  Explanation explanation(options, *rules, report);
  if (options.json) {
    explanation.print_json();
  } else if (!options.node.empty()) {
    explanation.print_node();
  } else if (!options.why_not.empty()) {
    explanation.print_why_not();
  } else {
    explanation.print_all();
  }
  return kSuccess;
}

}  // namespace

std::string remark_lines(const rewrite::Remarks& remarks) {
  std::string lines;
  for (const Remark& remark : remarks.all()) {
    lines += Explanation::to_json(remark).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
  }
  return lines;
}

Action add_explain(CLI::App& app) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* command = app.add_subcommand("explain", "Tell what optimizing does to a model, and what it leaves and why");
  command->add_option("model", options->input, "an .onnx or .ir file")->required();
  CLI::Option* node =
      command->add_option("--node", options->node, "what was done to nodes with this in their name or location");
  command
      ->add_option("--why-not", options->why_not,
                   "where this rule did not fire, by the part of its guard that did not hold")
      ->excludes(node);
  command->add_option("--rules", options->rules, "a file of rules of your own, as for opt");
  add_math(*command, options->math);
  command->add_flag("--json", options->json, "everything, for machines");
  command->footer("Example:\n  anfora explain resnet50.onnx --why-not compose-transposes");
  return [options] { return run_explain(*options); };
}

}  // namespace anfora::cli
