#include <fmt/format.h>

#include <CLI/App.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/text.h"
#include "driver/model.h"

namespace anfora::cli {
namespace {

struct InfoOptions {
  std::string model;
  driver::Pins pins;
  driver::SizeByName dims;
  bool json = false;
};

constexpr size_t kMostOperatorsShown = 12;

int run_info(const InfoOptions& options) {
  driver::LoadedModel model = driver::load_model(options.model);
  driver::pin_shapes(*model.module, options.pins);
  driver::require_dims(*model.module, options.dims);
  if (!options.dims.empty()) driver::pin_dims(*model.module, options.dims);
  const ir::Module& module = *model.module;
  driver::ModelSummary summary = driver::summarize(*model.module);
  // Nothing runs, so no weights are packed.
  runtime::Executable executable = driver::compile_as_is(module, {.reference_only = true});
  runtime::MemoryReport memory = executable.memory();
  if (options.json) {
    nlohmann::json json = {{"model", options.model},
                           {"producer", module.metadata().producer},
                           {"opsets", module.metadata().opsets},
                           {"operators", summary.operators},
                           {"parameters", summary.parameters},
                           {"parameter_bytes", summary.parameter_bytes},
                           {"flops", summary.flops},
                           {"symbols", summary.symbols}};
    for (const auto& [name, count] : summary.operator_counts) json["operator_counts"][name] = count;
    for (const auto& value : executable.inputs()) json["inputs"][value.name] = value.type;
    for (const auto& value : executable.outputs()) json["outputs"][value.name] = value.type;
    if (memory.is_known) {
      json["peak_bytes"] = memory.arena_bytes;
      json["peak_bytes_lower_bound"] = memory.arena_lower_bound;
    }
    json["missing_kernels"] = executable.missing_kernels();
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return kSuccess;
  }
  std::string opsets;
  for (const auto& [domain, version] : module.metadata().opsets) {
    opsets += fmt::format("{}{} {}", opsets.empty() ? "" : ", ", domain.empty() ? "ai.onnx" : domain, version);
  }
  fmt::print("{}{}{}  {}, {}{}\n", bold(), options.model, plain(), opsets,
             module.metadata().producer.empty() ? "producer unknown" : module.metadata().producer,
             module.metadata().producer_version.empty() ? "" : " " + module.metadata().producer_version);
  for (const auto& value : executable.inputs()) fmt::print("  input   {}: {}\n", value.name, value.type);
  for (const auto& value : executable.outputs()) fmt::print("  output  {}: {}\n", value.name, value.type);
  std::string operators;
  for (size_t i = 0; i < std::min(summary.operator_counts.size(), kMostOperatorsShown); ++i) {
    operators +=
        fmt::format("{}{} {}", i ? ", " : "", summary.operator_counts[i].second, summary.operator_counts[i].first);
  }
  if (summary.operator_counts.size() > kMostOperatorsShown) {
    operators += fmt::format(", {} other kinds", summary.operator_counts.size() - kMostOperatorsShown);
  }
  fmt::print("  nodes   {} ({})\n", summary.operators, operators);
  fmt::print("  weights {} values, {}\n", human_count(summary.parameters), human_bytes(summary.parameter_bytes));
  fmt::print("  compute {} a run\n", human_flops(summary.flops));
  if (memory.is_known) {
    fmt::print("  memory  {} for intermediate values (no plan can need less than {})\n",
               human_bytes(memory.arena_bytes), human_bytes(memory.arena_lower_bound));
  } else {
    fmt::print("  memory  depends on the symbolic dimensions\n");
  }
  if (!summary.symbols.empty()) {
    std::string symbols;
    for (const std::string& s : summary.symbols) symbols += (symbols.empty() ? "" : ", ") + s;
    fmt::print("  symbols {}\n", symbols);
  }
  for (const std::string& missing : executable.missing_kernels())
    fmt::print("  {}no kernel{} for {}\n", red(), plain(), missing);
  return kSuccess;
}

}  // namespace

Action add_info(CLI::App& app) {
  auto options = std::make_shared<InfoOptions>();
  CLI::App* command = app.add_subcommand("info", "What is in a model: operators, weights, flops, peak memory, shapes");
  command->add_option("model", options->model, "an .onnx or .ir file")->required();
  add_dims(*command, options->dims);
  add_pins(*command, options->pins);
  command->add_flag("--json", options->json, "for machines");
  command->footer("Example:\n  anfora info resnet50.onnx");
  return [options] { return run_info(*options); };
}

}  // namespace anfora::cli
