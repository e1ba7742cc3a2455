// `anfora explain`: what the optimizer does to a model, by theme and rule, and what it leaves and why. Nothing is written.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/opt_report.h"
#include "cli/rules.h"
#include "cli/text.h"
#include "driver/explain.h"
#include "driver/why_not.h"

namespace anfora::cli {
namespace {

using rewrite::Remark;

struct ExplainOptions {
  std::string input, node, why_not;
  std::vector<std::string> rules;
  driver::OptimizeOptions how;  // but for the rules
  bool json = false;
};

nlohmann::ordered_json remark_json(const Remark& remark) {
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

nlohmann::ordered_json explanation_json(const driver::Explanation& explanation, const ExplainOptions& options) {
  nlohmann::ordered_json json = {{"model", options.input},
                                 {"nodes_before", explanation.nodes_before},
                                 {"nodes_after", explanation.nodes_after},
                                 {"rounds", explanation.rounds},
                                 {"rules", rules_json(explanation.statistics, true)},
                                 {"remarks", nlohmann::ordered_json::array()}};
  for (const Remark* remark : about_node(explanation, options.node)) json["remarks"].push_back(remark_json(*remark));
  return json;
}

nlohmann::ordered_json why_not_json(const driver::WhyNot& answer) {
  nlohmann::ordered_json json = {{"rule", answer.rule},
                                 {"text", answer.text},
                                 {"tried", answer.statistics.tried},
                                 {"fired", answer.statistics.fired},
                                 {"reasons", nlohmann::ordered_json::array()},
                                 {"taken_first", nlohmann::ordered_json::array()},
                                 {"try", answer.remedies}};
  for (const driver::WhyNot::Nodes& nodes : answer.reasons) {
    json["reasons"].push_back({{"reason", nodes.reason}, {"nodes", nodes.places}});
  }
  for (const driver::WhyNot::Nodes& nodes : answer.taken) {
    json["taken_first"].push_back({{"rule", nodes.reason}, {"nodes", nodes.places}});
  }
  return json;
}

void print(const driver::WhyNot& answer, bool json) {
  if (json) return print_json(stdout, why_not_json(answer));
  fmt::print("{}", to_text(answer, style()));
}

void print(const driver::Explanation& explanation, const ExplainOptions& options) {
  if (options.json) return print_json(stdout, explanation_json(explanation, options));
  if (options.node.empty()) {
    fmt::print("{}", to_text(explanation, std::filesystem::path(options.input).filename().string(), style()));
    if (explanation.refused() > 0) fmt::print("--why-not RULE tells why\n");
    return;
  }
  const auto remarks = about_node(explanation, options.node);
  for (const Remark* remark : remarks) fmt::print("{}\n", to_text(*remark, style()));
  if (remarks.empty()) fmt::print("no rule matched or nearly matched {}\n", options.node);
}

int run_explain(const ExplainOptions& options) {
  driver::LoadedModel model = driver::load_model(options.input);
  rules_with(model.module->context(), options.rules);  // what is wrong with them is an error of usage
  driver::OptimizeOptions how = options.how;
  how.rules.assign(options.rules.begin(), options.rules.end());
  if (!options.why_not.empty()) {
    print(driver::why_not(*model.module, how, options.why_not), options.json);
    return kSuccess;
  }
  const size_t nodes_before = driver::summarize_file(*model.module, options.input).nodes;
  driver::Explanation explanation = driver::explain(*model.module, how);
  explanation.nodes_before = nodes_before;
  if (!driver::ModelSource(options.input).is_onnx()) explanation.nodes_after = model.module->num_operations();
  print(explanation, options);
  return kSuccess;
}

}  // namespace

std::string remark_lines(const rewrite::Remarks& remarks) {
  std::string lines;
  for (const Remark& remark : remarks.all()) {
    lines += remark_json(remark).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
  }
  return lines;
}

Action add_explain(CLI::App& app) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* command = app.add_subcommand("explain", "Explain what optimizing does to a model, and why rules do not fire");
  command->add_option("model", options->input, "an .onnx or .ir file, or file.py::function")->required()->type_name("FILE");
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
  command->add_option("--opset", options->how.opset, "as for opt: the operator set that it would write")
      ->type_name("SET");
  add_target(*command, options->how.target);
  add_math(*command, options->how.math);
  command->add_flag("--json", options->json, "print JSON");
  command->footer("Example:\n  anfora explain resnet50.onnx --why-not compose-transposes");
  return [options] { return run_explain(*options); };
}

}  // namespace anfora::cli
