// `anfora compile`: a model as a file that runs without being compiled again.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "cli/command.h"
#include "cli/files.h"
#include "cli/text.h"
#include "driver/compiled.h"

namespace anfora::cli {
namespace {

struct CompileOptions {
  std::string model, output, save_graphs;
  driver::Pins pins;
  int threads = 0;
  bool no_optimize = false;
  rewrite::Promise math = rewrite::Promise::Real;
  std::optional<int64_t> memory_limit;
  driver::Tune tune = driver::Tune::Off;
};

int run_compile(const CompileOptions& options) {
  if (!driver::is_compiled(options.output)) {
    throw UsageError{Error(ErrorCode::InvalidArgument, fmt::format("'{}' does not end in .anf", options.output))
                         .with_hint("other commands tell compiled models by that")};
  }
  Files files;
  files.reads(options.model).writes("--output", options.output).check();
  driver::LoadedModel model = driver::load_model(options.model);
  files.check_loaded();
  driver::pin_shapes(*model.module, options.pins);
  const runtime::Executable executable =
      driver::compile_model(std::move(model), {.threads = options.threads,
                                               .optimize = !options.no_optimize,
                                               .math = options.math,
                                               .save_graphs = options.save_graphs,
                                               .memory_limit = options.memory_limit,
                                               .tune = options.tune,
                                               .on_note = [](const std::string& note) { fmt::print("{}\n", note); }});
  runtime::save_artifact(executable, options.output);
  fmt::print("{}: {}, for {}\n", options.output,
             human_bytes(static_cast<int64_t>(std::filesystem::file_size(options.output))), runtime::artifact_origin());
  return kSuccess;
}

}  // namespace

Action add_compile(CLI::App& app) {
  auto options = std::make_shared<CompileOptions>();
  CLI::App* command =
      app.add_subcommand("compile", "Compile a model to a file that runs at once, on processors like this one");
  command->add_option("model", options->model, "an .onnx or .ir file, or file.py::function")
      ->required()
      ->type_name("FILE");
  command->add_option("-o,--output", options->output, "the compiled model, .anf")->required()->type_name("FILE");
  add_pins(*command, options->pins);
  add_threads(*command, options->threads);
  add_isa(*command);
  add_math(*command, options->math);
  add_memory_limit(*command, options->memory_limit);
  add_tune(*command, options->tune);
  command
      ->add_option("--save-graphs", options->save_graphs,
                   "a folder for the module after each pass, and of a function of Python for what it was before")
      ->type_name("FOLDER");
  command->add_flag("--no-optimize", options->no_optimize, "compile the graph as it is");
  command->footer(
      "Example:\n  anfora compile model.onnx -o model.anf\n  anfora run model.anf --input in.npz --output out.npz");
  return [options] { return run_compile(*options); };
}

}  // namespace anfora::cli
