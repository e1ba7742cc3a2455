#include <fmt/format.h>

#include <CLI/App.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/text.h"
#include "driver/compiled.h"
#include "driver/interface.h"
#include "driver/layouts.h"
#include "driver/model.h"
#include "ir/readable.h"

namespace anfora::cli {
namespace {

struct InfoOptions {
  std::string model;
  driver::Pins pins;
  driver::SizeByName dims;
  bool compiled = false, json = false;
};

constexpr size_t kMostOperatorsShown = 12;

std::map<std::string, size_t> implementations_of(const runtime::Executable& executable) {
  std::map<std::string, size_t> implementations;
  for (const auto& kernel : executable.program().kernels) ++implementations[kernel->implementation];
  return implementations;
}

// The kernels of a compiled model, and the layouts of its images.
void add_compiled(nlohmann::ordered_json& json, const runtime::Executable& executable) {
  const driver::LayoutSummary layouts = driver::summarize_layouts(executable);
  json["functions"] = executable.program().functions.size();
  json["kernels"] = implementations_of(executable);
  json["layouts"] = {{"transposes", layouts.transposes},
                     {"transposed_bytes", layouts.bytes},
                     {"transposes_of_unknown_size", layouts.unsized},
                     {"image_operators", layouts.images},
                     {"channels_last", layouts.channels_last}};
}

void print_compiled(const runtime::Executable& executable) {
  std::string kernels;
  for (const auto& [name, count] : implementations_of(executable))
    kernels += fmt::format("{}{} {}", kernels.empty() ? "" : ", ", count, name);
  fmt::print("  kernels {}{}\n", executable.program().kernels.size(),
             kernels.empty() ? "" : fmt::format(" ({})", kernels));
  const driver::LayoutSummary layouts = driver::summarize_layouts(executable);
  std::string text = counted(layouts.transposes, "transpose");
  if (layouts.transposes > layouts.unsized) text += fmt::format(" of {}", human_bytes(static_cast<int64_t>(layouts.bytes)));
  if (layouts.unsized > 0) text += fmt::format(", {} of unknown size", layouts.unsized);
  if (layouts.images > 0) {
    text += fmt::format("; {} of {} convolutions and poolings with their channels last", layouts.channels_last,
                        layouts.images);
  }
  fmt::print("  layouts {}\n", text);
}

// Of a compiled model. Reads all of it, to see that it is whole.
int run_info_of_compiled(const InfoOptions& options) {
  const runtime::Executable executable = runtime::load_artifact(options.model, {.check_elements = true});
  const int64_t bytes = static_cast<int64_t>(std::filesystem::file_size(options.model));
  if (options.json) {
    nlohmann::ordered_json json = {{"model", options.model},
                                   {"compiled_for", runtime::artifact_origin()},
                                   {"bytes", bytes}};
    add_compiled(json, executable);
    for (const runtime::ValueSpec& input : executable.inputs()) json["inputs"][input.name] = input.type;
    for (const runtime::ValueSpec& output : executable.outputs()) json["outputs"][output.name] = output.type;
    json["missing_kernels"] = executable.missing_kernels();
    print_json(stdout, json);
    return kSuccess;
  }
  fmt::print("{}{}{}  compiled for {}\n", bold(), options.model, plain(), runtime::artifact_origin());
  for (const runtime::ValueSpec& input : executable.inputs()) fmt::print("  input   {}: {}\n", input.name, input.type);
  for (const runtime::ValueSpec& output : executable.outputs())
    fmt::print("  output  {}: {}\n", output.name, output.type);
  print_compiled(executable);
  fmt::print("  file    {}, unchanged since it was written\n", human_bytes(bytes));
  for (const std::string& missing : executable.missing_kernels())
    fmt::print("  {}no kernel{} for {}\n", red(), plain(), missing);
  return kSuccess;
}

int run_info(const InfoOptions& options) {
  if (driver::is_compiled(options.model)) return run_info_of_compiled(options);
  driver::LoadedModel model = driver::load_model(options.model);
  driver::pin_shapes(*model.module, options.pins);
  driver::require_dims(*model.module, options.dims);
  if (!options.dims.empty()) driver::pin_dims(*model.module, options.dims);
  const ir::Module& module = *model.module;
  driver::ModelSummary summary = driver::summarize(*model.module);
  driver::FileSummary file = driver::summarize_file(module, options.model);
  // Nothing runs, so no weights are packed.
  runtime::Executable executable = driver::compile_as_is(module, {.reference_only = true});
  runtime::MemoryReport memory = executable.memory();
  const driver::NamedTypes inputs = driver::inputs_of(module), outputs = driver::outputs_of(module);
  if (options.json) {
    nlohmann::ordered_json json = {{"model", options.model},
                                   {"producer", module.metadata().producer},
                                   {"opsets", module.metadata().opsets},
                                   {"nodes", file.nodes},
                                   {"bytes", file.bytes},
                                   {"parameters", summary.parameters},
                                   {"parameter_bytes", summary.parameter_bytes},
                                   {"flops", summary.flops},
                                   {"flops_of_unknown_sizes_1", summary.has_unknown_sizes},
                                   {"symbols", summary.symbols},
                                   {"operator_counts", nlohmann::ordered_json::object()}};
    for (const auto& [name, count] : file.operator_counts) json["operator_counts"][name] = count;
    for (const auto& [name, type] : inputs) json["inputs"][name] = ir::readable(type);
    for (const auto& [name, type] : outputs) json["outputs"][name] = ir::readable(type);
    if (memory.is_known) {
      json["peak_bytes"] = memory.arena_bytes;
      json["peak_bytes_lower_bound"] = memory.arena_lower_bound;
    }
    json["missing_kernels"] = executable.missing_kernels();
    if (options.compiled) add_compiled(json["compiled"], driver::compile_model(std::move(model)));
    print_json(stdout, json);
    return kSuccess;
  }
  std::string opsets;
  for (const auto& [domain, version] : module.metadata().opsets) {
    opsets += fmt::format("{}{} {}", opsets.empty() ? "" : ", ", domain.empty() ? "ai.onnx" : domain, version);
  }
  fmt::print("{}{}{}  {}, {}{}\n", bold(), options.model, plain(), opsets,
             module.metadata().producer.empty() ? "producer unknown" : module.metadata().producer,
             module.metadata().producer_version.empty() ? "" : " " + module.metadata().producer_version);
  for (const auto& [name, type] : inputs) fmt::print("  input   {}: {}\n", name, ir::readable(type));
  for (const auto& [name, type] : outputs) fmt::print("  output  {}: {}\n", name, ir::readable(type));
  std::string operators;
  for (size_t i = 0; i < std::min(file.operator_counts.size(), kMostOperatorsShown); ++i) {
    operators += fmt::format("{}{} {}", i ? ", " : "", file.operator_counts[i].second, file.operator_counts[i].first);
  }
  if (file.operator_counts.size() > kMostOperatorsShown) {
    operators += fmt::format(", {} other operators", file.operator_counts.size() - kMostOperatorsShown);
  }
  fmt::print("  nodes   {}{}\n", file.nodes, operators.empty() ? "" : fmt::format(" ({})", operators));
  fmt::print("  weights {} values, {}\n", human_count(summary.parameters), human_bytes(summary.parameter_bytes));
  fmt::print("  compute {} a run{}\n", human_flops(summary.flops),
             summary.has_unknown_sizes ? ", with every unknown size 1" : "");
  if (memory.is_known) {
    fmt::print("  memory  {} for intermediate values (lower bound {})\n", human_bytes(memory.arena_bytes),
               human_bytes(memory.arena_lower_bound));
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
  if (options.compiled) print_compiled(driver::compile_model(std::move(model)));
  return kSuccess;
}

}  // namespace

Action add_info(CLI::App& app) {
  auto options = std::make_shared<InfoOptions>();
  CLI::App* command = app.add_subcommand("info", "Summarize a model: operators, weights, FLOP, peak memory, shapes");
  command->add_option("model", options->model, "an .onnx, .ir or .anf file, or file.py::function")
      ->required()
      ->type_name("FILE");
  add_dims(*command, options->dims);
  add_pins(*command, options->pins);
  command->add_flag("--compiled", options->compiled, "compile the model, and count its kernels and changes of layout too");
  command->add_flag("--json", options->json, "print JSON");
  command->footer("Example:\n  anfora info resnet50.onnx");
  return [options] { return run_info(*options); };
}

}  // namespace anfora::cli
