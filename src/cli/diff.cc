// `anfora diff`: what is different between two graphs, node by node. Whether they compute the same is `anfora verify`.
#include "driver/diff.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/text.h"
#include "driver/model.h"

namespace anfora::cli {
namespace {

struct DiffOptions {
  std::string before, after;
  bool all = false, json = false;
};

void print_difference_json(const driver::Difference& difference, const driver::NodesOfFiles& files) {
  nlohmann::ordered_json json = {{"nodes_before", files.before},
                                 {"nodes_after", files.after},
                                 {"same", difference.same},
                                 {"gone", difference.gone},
                                 {"new", difference.made},
                                 {"interface", difference.interface_changes},
                                 {"operators", nlohmann::ordered_json::object()},
                                 {"changed", nlohmann::ordered_json::array()}};
  for (const auto& [name, count] : difference.operators) json["operators"][name] = {count.before, count.after};
  for (const driver::ChangedNode& node : difference.changed) {
    json["changed"].push_back({{"before", node.before}, {"after", node.after}, {"changes", node.changes}});
  }
  print_json(stdout, json);
}

int run_diff(const DiffOptions& options) {
  driver::LoadedModel before = driver::load_model(options.before), after = driver::load_model(options.after);
  driver::Difference difference = driver::diff(*before.module, *after.module);
  const driver::NodesOfFiles files{driver::summarize_file(*before.module, options.before).nodes,
                                   driver::summarize_file(*after.module, options.after).nodes};
  if (options.json) {
    print_difference_json(difference, files);
  } else {
    fmt::print("{}", driver::to_text(difference, files, options.all, style()));
  }
  return difference.empty() ? kSuccess : kDiffers;
}

}  // namespace

Action add_diff(CLI::App& app) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App* command = app.add_subcommand("diff", "What is different between two graphs, by the names of their nodes");
  command->add_option("before", options->before, "an .onnx or .ir file, or file.py::function")->required()->type_name("FILE");
  command->add_option("after", options->after, "another one")->required()->type_name("FILE");
  command->add_flag("--all", options->all, "all nodes, not only ten of a list");
  command->add_flag("--json", options->json, "print JSON");
  command->footer("Example:\n  anfora diff resnet50.onnx small.onnx\nThe exit code is 1 where there is a difference.");
  return [options] { return run_diff(*options); };
}

}  // namespace anfora::cli
