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
#include "cli/explanation.h"
#include "cli/opt_report.h"
#include "cli/rules.h"
#include "cli/text.h"
#include "driver/model.h"
#include "pipeline/pipeline.h"

namespace anfora::cli {
namespace {

using rewrite::Remark;
using Outcome = Remark::Outcome;

constexpr size_t kExamples = 3;  // of one rule

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

class Explanation {
 public:
  Explanation(const ExplainOptions& options, const Optimized& optimized)
      : options_(options),
        rules_(*optimized.rules),
        report_(optimized.report),
        nodes_before_(optimized.file.nodes),
        nodes_after_(nodes_written(options, optimized)) {
    for (const Remark& remark : report_.remarks.all()) {
      if (remark.outcome != Outcome::Applied) continue;
      Work& work = work_[remark.rule];
      work.pass = remark.pass;
      work.before += remark.before;
      work.after += remark.after;
      if (work.examples.size() < kExamples) work.examples.push_back(&remark);
    }
    for (const auto& [rule, statistics] : report_.remarks.statistics()) {
      if (auto known = work_.find(rule); known != work_.end()) known->second.statistics = statistics;
    }
  }

  nlohmann::ordered_json to_json() const {
    nlohmann::ordered_json json = {{"model", options_.input},
                                   {"nodes_before", nodes_before_},
                                   {"nodes_after", nodes_after_},
                                   {"rounds", report_.rounds},
                                   {"rules", rules_json(report_.remarks)},
                                   {"remarks", nlohmann::ordered_json::array()}};
    for (const Remark& remark : report_.remarks.all()) {
      if (options_.node.empty() || is_about_node(remark)) json["remarks"].push_back(to_json(remark));
    }
    return json;
  }

  // All rules that fired, by theme; those that fired most come first.
  void print_all() const {
    fmt::print("{}{}{}: {} → {} nodes in {}\n", bold(), std::filesystem::path(options_.input).filename().string(),
               plain(), nodes_before_, nodes_after_, counted(report_.rounds, "round"));
    for (const auto& [theme, rules] : by_theme()) {
      fmt::print("\n{}{}{}\n", bold(), theme, plain());
      for (const auto& [name, work] : rules) print_rule(name, *work);
    }
    size_t left = 0;
    for (const Remark& remark : report_.remarks.all()) left += remark.outcome == Outcome::Refused;
    if (left > 0)
      fmt::print("\n{} refused, not profitable or not possible: --why-not RULE tells why\n",
                 counted(left, "rewrite"));
  }

  void print_node() const {
    bool found = false;
    for (const Remark& remark : report_.remarks.all()) {
      if (!is_about_node(remark)) continue;
      found = true;
      std::string_view verb = remark.outcome == Outcome::Applied   ? "rewritten by"
                              : remark.outcome == Outcome::Refused ? "refused by"
                                                                   : "not by";
      fmt::print("{}: {} {}{}{}{}{}{}\n", place(remark), verb, bold(), remark.rule, plain(),
                 remark.message.empty() ? "" : ": ", remark.message, nodes_text(remark));
    }
    if (!found) fmt::print("no rule matched or nearly matched {}\n", options_.node);
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
  // Those of the file that `opt` would write; of the module, where it cannot be written.
  static size_t nodes_written(const ExplainOptions& options, const Optimized& optimized) {
    try {
      if (std::filesystem::path(options.input).extension() != ".ir")
        return driver::describe_saved(*optimized.model.module, {.opset = options.opset}).nodes;
    } catch (const Error&) {
      // `opt` says what is in the way.
    }
    return optimized.report.nodes_after;
  }

  bool is_about_node(const Remark& remark) const {
    return remark.node.find(options_.node) != std::string::npos ||
           remark.location.find(options_.node) != std::string::npos;
  }

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
  size_t nodes_before_, nodes_after_;
  std::map<std::string_view, Work> work_;
};

int run_explain(const ExplainOptions& options) {
  const Optimized optimized = optimize_with(options);
  if (!options.why_not.empty()) {
    const WhyNot answer = why_not(options, optimized);
    if (options.json) {
      print_json(stdout, to_json(answer));
    } else {
      print(answer);
    }
    return kSuccess;
  }
  Explanation explanation(options, optimized);
  if (options.json) {
    print_json(stdout, explanation.to_json());
  } else if (!options.node.empty()) {
    explanation.print_node();
  } else {
    explanation.print_all();
  }
  return kSuccess;
}

}  // namespace

std::string place(const Remark& remark) {
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

Optimized optimize_with(const ExplainOptions& options) {
  Optimized optimized;
  optimized.model = driver::load_model(options.input);
  ir::Module& module = *optimized.model.module;
  auto rules = rules_with(module.context(), options.rules);
  pipeline::OptimizeOptions passes =
      driver::optimizing_for(module, {.target = &driver::target_named(options.target), .opset = options.opset});
  passes.passes.rules = rules;
  passes.passes.math = options.math;
  passes.keep_remarks = true;
  auto known = rules_with(module.context(), options.rules);
  passes::add_rules_of_passes(*known);
  if (!options.why_not.empty()) find_rule(*known, options.why_not);  // before the work, where there is none
  optimized.rules = known;
  optimized.file = driver::summarize_file(module, options.input);
  optimized.report = pipeline::optimize(module, passes);
  return optimized;
}

std::string remark_lines(const rewrite::Remarks& remarks) {
  std::string lines;
  for (const Remark& remark : remarks.all()) {
    lines += Explanation::to_json(remark).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
  }
  return lines;
}

Action add_explain(CLI::App& app) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* command = app.add_subcommand("explain", "Explain what optimizing does to a model, and why rules do not fire");
  command->add_option("model", options->input, "an .onnx or .ir file")->required()->type_name("FILE");
  CLI::Option* node =
      command->add_option("--node", options->node, "what was done to nodes with this in their name or location")
          ->type_name("NAME");
  command
      ->add_option("--why-not", options->why_not,
                   "where this rule did not fire: by the part of its guard that did not hold, or the rule that took "
                   "the nodes first; and what to change")
      ->excludes(node)
      ->type_name("RULE");
  command->add_option("--rules", options->rules, "a file of rules of your own, as for opt")->type_name("FILE");
  command->add_option("--opset", options->opset, "as for opt: the operator set that it would write")->type_name("SET");
  add_target(*command, options->target);
  add_math(*command, options->math);
  command->add_flag("--json", options->json, "print JSON");
  command->footer("Example:\n  anfora explain resnet50.onnx --why-not compose-transposes");
  return [options] { return run_explain(*options); };
}

}  // namespace anfora::cli
