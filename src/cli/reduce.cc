#include <fmt/format.h>
#include <sys/wait.h>

#include <CLI/App.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "anfora/error.h"
#include "cli/command.h"
#include "cli/text.h"
#include "driver/audit.h"
#include "driver/model.h"
#include "driver/reduce.h"
#include "ir/clone.h"

namespace anfora::cli {
namespace {

struct ReduceOptions {
  std::string input, output, command;
  rewrite::Promise math = rewrite::Promise::Real;
  size_t trials = driver::ReduceOptions().most_trials;
};

// Whether the command fails on the module, written to a file whose name stands for {}.
bool fails_by_command(const ir::Module& module, const std::string& command, const std::filesystem::path& file) {
  driver::save_model(module, file);
  std::string line = command;
  for (size_t at = line.find("{}"); at != std::string::npos; at = line.find("{}", at + 1)) {
    line.replace(at, 2, "'" + file.string() + "'");
  }
  int status = std::system((line + " > /dev/null 2>&1").c_str());
  return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

int run_reduce(const ReduceOptions& options) {
  driver::LoadedModel model = driver::load_model(options.input);
  Progress progress("reducing");
  driver::ReduceOptions how{.most_trials = options.trials};
  how.on_smaller = [&](size_t operators) { progress.update(-1, fmt::format("{} nodes", operators)); };
  size_t before = model.module->num_operations();

  std::unique_ptr<ir::Module> small;
  if (!options.command.empty()) {
    std::filesystem::path file = options.output;
    file.replace_filename("trial-" + file.filename().string());
    small = driver::reduce(
        *model.module, [&](const ir::Module& m) { return fails_by_command(m, options.command, file); }, how);
    std::filesystem::remove(file);
  } else {
    pipeline::OptimizeOptions passes;
    passes.passes.math = options.math;
    std::unique_ptr<ir::Module> optimized = clone(*model.module);
    pipeline::OptimizeReport report;
    auto finding = driver::optimize_audited(*optimized, passes, report);
    if (!finding) {
      throw Error(ErrorCode::InvalidArgument, "optimizing the model does not change its results")
          .with_hint("--command 'PROGRAM {}' reduces by another program's failure");
    }
    fmt::print("{} {}: {}\n", finding->pass, finding->rule, finding->message);
    small = driver::reduce_finding(*finding, passes.passes);
  }
  driver::save_model(*small, options.output);
  fmt::print("{} nodes -> {}: {}\n", before, small->num_operations(), options.output);
  return kSuccess;
}

}  // namespace

Action add_reduce(CLI::App& app) {
  auto options = std::make_shared<ReduceOptions>();
  CLI::App* command = app.add_subcommand("reduce", "Shrink a model that shows a defect to a small one that still does");
  command->add_option("model", options->input, "an .onnx or .ir file")->required();
  command->add_option("-o,--output", options->output, "the small model, .onnx or .ir")->required();
  command->add_option("--command", options->command,
                      "a command that fails on the defect, with {} for the model's file; without it, the defect "
                      "is that optimizing changes the result");
  add_math(*command, options->math);
  command->add_option("--trials", options->trials, "smaller models to try at most")->capture_default_str();
  command->footer("Example:\n  anfora reduce model.onnx -o small.onnx --command 'python3 compare.py {}'");
  return [options] { return run_reduce(*options); };
}

}  // namespace anfora::cli
