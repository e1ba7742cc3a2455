// `anfora passes`: the passes as a list, or as the document docs/passes.md.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/text.h"
#include "pipeline/pipelines.h"

namespace anfora::cli {
namespace {

using passes::Pass;

constexpr const char* kPassesIntroduction = R"(# Passes

Written by `anfora passes --markdown` from the declarations in `src/passes` and the lists in `src/pipeline/pipelines.cc`; a test compares
them. [architecture.md](architecture.md#the-passes) says what the pipelines are for, [adding-a-pass.md](adding-a-pass.md) how a pass comes in.
)";

std::vector<std::string_view> stages_of(const Pass& pass) {
  std::vector<std::string_view> names;
  for (const pipeline::Pipeline* pipeline : pipeline::all_pipelines()) {
    for (const pipeline::Stage* stage : pipeline->stages) {
      if (std::ranges::count(stage->passes, &pass) > 0 && std::ranges::count(names, stage->name) == 0) names.push_back(stage->name);
    }
  }
  return names;
}

// A link from docs/ to where it is declared, and to its rules.
std::string files_of(const Pass& pass) {
  const std::string_view path = pass.where.file_name();
  const std::string_view file = path.substr(path.rfind("src/passes/"));
  std::string links = fmt::format("[{}](../{})", file.substr(file.rfind('/') + 1), file);
  if (std::ranges::count(passes::kRulesOfPasses, pass.name) > 0) links += fmt::format(", [{0}.rules](../rules/{0}.rules)", pass.name);
  return links;
}

void print_passes_markdown() {
  fmt::print("{}", kPassesIntroduction);
  fmt::print("\n## Pipelines\n\n| pipeline | stages |\n|---|---|\n");
  for (const pipeline::Pipeline* pipeline : pipeline::all_pipelines()) {
    std::vector<std::string> stages;
    for (const pipeline::Stage* stage : pipeline->stages) {
      std::vector<std::string_view> names;
      for (const Pass* pass : stage->passes) names.push_back(pass->name);
      stages.push_back(fmt::format("**{}**{}: {}", stage->name, stage->to_fixpoint ? " to a fixpoint" : "", fmt::join(names, " ")));
      if (stage->on_change) stages.back() += fmt::format(", after a change **{}**", stage->on_change->name);
    }
    fmt::print("| `{}` | {} |\n", pipeline->name, fmt::join(stages, "<br>"));
  }
  fmt::print("\n## Passes\n\n| pass | called | what it does | stages | files |\n|---|---|---|---|---|\n");
  for (const Pass* pass : pipeline::all_passes()) {
    fmt::print("| `{}` | {} | {} | {} | {} |\n", pass->name, pass->doc, pass->note, fmt::join(stages_of(*pass), ", "), files_of(*pass));
  }
  fmt::print("\n## Order\n\nChecked at start for each pipeline and stage that has both.\n\n| first | then | because |\n|---|---|---|\n");
  for (const auto& [before, after, reason] : pipeline::order_of_passes()) {
    fmt::print("| `{}` | `{}` | {} |\n", before, after, reason);
  }
}

void print_passes_list() {
  for (const Pass* pass : pipeline::all_passes()) {
    fmt::print("{} {}   {}{}{}\n", left_aligned(std::string(pass->name), 18), left_aligned(std::string(pass->doc), 28), dim(), pass->note, plain());
  }
}

}  // namespace

Action add_passes(CLI::App& app) {
  auto markdown = std::make_shared<bool>();
  CLI::App* command = app.add_subcommand("passes", "List the passes of the optimizer");
  command->add_flag("--markdown", *markdown, "the document docs/passes.md");
  command->footer("Example:\n  anfora passes");
  return [markdown] {
    *markdown ? print_passes_markdown() : print_passes_list();
    return kSuccess;
  };
}

}  // namespace anfora::cli
