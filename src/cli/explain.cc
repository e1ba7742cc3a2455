// `anfora explain`: what the optimizer does to a model, by theme and rule, and what it leaves and why. Nothing is written.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <filesystem>
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

nlohmann::ordered_json to_json(const Remark& remark) {
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

nlohmann::ordered_json to_json(const driver::Explanation& explanation, const rewrite::Remarks& remarks,
                               const ExplainOptions& options) {
  nlohmann::ordered_json json = {{"model", options.input},
                                 {"nodes_before", explanation.nodes_before},
                                 {"nodes_after", explanation.nodes_after},
                                 {"rounds", explanation.rounds},
                                 {"rules", rules_json(remarks)},
                                 {"remarks", nlohmann::ordered_json::array()}};
  for (const Remark* remark : about_node(explanation, options.node)) json["remarks"].push_back(to_json(*remark));
  return json;
}

// Those of the file that `opt` would write; of the module, where it cannot be written.
size_t nodes_written(const ExplainOptions& options, const Optimized& optimized) {
  try {
    if (std::filesystem::path(options.input).extension() != ".ir")
      return driver::describe_saved(*optimized.model.module, {.opset = options.opset}).nodes;
  } catch (const Error&) {
    // `opt` says what is in the way.
  }
  return optimized.report.nodes_after;
}

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
  driver::Explanation explanation = driver::explain(optimized.report, *optimized.rules);
  explanation.nodes_before = optimized.file.nodes;
  explanation.nodes_after = nodes_written(options, optimized);
  if (options.json) {
    print_json(stdout, to_json(explanation, optimized.report.remarks, options));
  } else if (options.node.empty()) {
    fmt::print("{}", to_text(explanation, std::filesystem::path(options.input).filename().string(), style()));
    if (explanation.refused() > 0) fmt::print("--why-not RULE tells why\n");
  } else {
    const auto remarks = about_node(explanation, options.node);
    for (const Remark* remark : remarks) fmt::print("{}\n", to_text(*remark, style()));
    if (remarks.empty()) fmt::print("no rule matched or nearly matched {}\n", options.node);
  }
  return kSuccess;
}

}  // namespace

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
    lines += to_json(remark).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
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
