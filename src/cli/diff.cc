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

constexpr size_t kFew = 10;  // of a list, without --all

struct DiffOptions {
  std::string before, after;
  bool all = false, json = false;
};

struct NodesOfFiles {
  size_t before, after;
};

void print_list(std::string_view title, std::string_view color, char mark, const std::vector<std::string>& list,
                const DiffOptions& options) {
  if (list.empty()) return;
  fmt::print("\n{}{}{} {}\n", bold(), title, plain(), list.size());
  const size_t shown = options.all ? list.size() : std::min(kFew, list.size());
  for (size_t i = 0; i < shown; ++i) fmt::print("  {}{}{} {}\n", color, mark, plain(), list[i]);
  if (shown < list.size()) fmt::print("  … and {} more (--all)\n", list.size() - shown);
}

void print_text(const driver::Difference& difference, const NodesOfFiles& files, const DiffOptions& options) {
  size_t before = 0, after = 0;
  for (const auto& [name, count] : difference.operators) {
    before += static_cast<size_t>(count.before);
    after += static_cast<size_t>(count.after);
  }
  fmt::print("{} → {} nodes: {} as they were, {} changed, {} gone, {} new\n", files.before, files.after,
             difference.same, difference.changed.size(), difference.gone.size(), difference.made.size());
  if (files.before != before || files.after != after) {
    fmt::print("{}({} → {} without Constant nodes, which are compared as operands, and control flow, as functions){}\n",
               dim(), before, after, plain());
  }
  if (difference.empty()) return;
  for (const std::string& change : difference.interface_changes) fmt::print("{}\n", change);

  fmt::print("\n{}operators{}\n", bold(), plain());
  for (const auto& [name, count] : difference.operators) {
    if (count.before == count.after) continue;
    fmt::print("  {:<28} {:>6} → {:<6} {}\n", name, count.before, count.after,
               signed_count(count.after - count.before));
  }
  std::vector<std::string> changed;
  for (const driver::ChangedNode& node : difference.changed) {
    std::string text = node.before == node.after ? node.before : fmt::format("{} → {}", node.before, node.after);
    for (const std::string& change : node.changes) text += fmt::format("\n      {}", change);
    changed.push_back(std::move(text));
  }
  print_list("changed", "", '~', changed, options);
  print_list("gone", red(), '-', difference.gone, options);
  print_list("new", green(), '+', difference.made, options);
}

void print_difference_json(const driver::Difference& difference, const NodesOfFiles& files) {
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
  const NodesOfFiles files{driver::summarize_file(*before.module, options.before).nodes,
                           driver::summarize_file(*after.module, options.after).nodes};
  if (options.json) {
    print_difference_json(difference, files);
  } else {
    print_text(difference, files, options);
  }
  return difference.empty() ? kSuccess : kDiffers;
}

}  // namespace

Action add_diff(CLI::App& app) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App* command = app.add_subcommand("diff", "What is different between two graphs, by the names of their nodes");
  command->add_option("before", options->before, "an .onnx or .ir file")->required()->type_name("FILE");
  command->add_option("after", options->after, "another one")->required()->type_name("FILE");
  command->add_flag("--all", options->all, "all nodes, not only some");
  command->add_flag("--json", options->json, "print JSON");
  command->footer("Example:\n  anfora diff resnet50.onnx small.onnx\nThe exit code is 1 where there is a difference.");
  return [options] { return run_diff(*options); };
}

}  // namespace anfora::cli
