#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include "anfora/error.h"
#include "cli/command.h"
#include "cli/files.h"
#include "cli/output.h"
#include "cli/rules.h"
#include "cli/text.h"
#include "driver/audit.h"
#include "driver/model.h"
#include "driver/reduce.h"
#include "driver/staged_model.h"
#include "ir/clone.h"
#include "support/cancellation.h"

namespace anfora::cli {
namespace {

struct ReduceOptions {
  std::string input, output, command;
  rewrite::Promise math = rewrite::Promise::Real;
  std::vector<std::string> rules;
  driver::SizeByName dims;
  size_t trials = driver::ReduceOptions().most_trials;
};

constexpr std::chrono::milliseconds kWait{5};

// Runs a command of the shell, silently, in a process group of its own, so that all of it ends when this program is interrupted.
// Returns its status as waitpid() tells it.
int run_in_shell(const std::string& line) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string shell = "/bin/sh", flag = "-c", command = line;
  char* arguments[] = {shell.data(), flag.data(), command.data(), nullptr};
  pid_t child = 0;
  const int failure = posix_spawn(&child, shell.c_str(), &files, &attributes, arguments, environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (failure != 0) {
    throw Error(ErrorCode::ResourceExhausted,
                fmt::format("cannot start a shell: {}", std::generic_category().message(failure)));
  }
  try {
    for (int status = 0;; std::this_thread::sleep_for(kWait)) {
      if (waitpid(child, &status, WNOHANG) == child) return status;
      check_cancelled();
    }
  } catch (const Cancelled&) {
    kill(-child, SIGTERM);
    throw;
  }
}

// Whether the command fails on the module, written to a file whose name stands for {}.
bool fails_by_command(const ir::Module& module, const std::string& command, const std::filesystem::path& file) {
  driver::save_model(module, file);
  std::string line = command;
  for (size_t at = line.find("{}"); at != std::string::npos; at = line.find("{}", at + 1)) {
    line.replace(at, 2, "'" + file.string() + "'");
  }
  const int status = run_in_shell(line);
  return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

int run_reduce(const ReduceOptions& options) {
  Output output(options.output, ".onnx");
  Files files;
  files.reads(options.input).reads(options.rules).writes("--output", options.output, true).check();
  driver::LoadedModel model = driver::load_model(options.input);
  files.check_loaded();
  driver::require_dims(*model.module, options.dims);
  Progress progress("reducing");
  driver::ReduceOptions how{.most_trials = options.trials};
  how.on_smaller = [&](size_t operators) { progress.update(-1, fmt::format("{} nodes", operators)); };
  size_t before = model.module->num_operations();

  std::unique_ptr<ir::Module> small;
  if (!options.command.empty()) {
    const driver::StagedModel trial(output.file());
    small = driver::reduce(
        *model.module, [&](const ir::Module& m) { return fails_by_command(m, options.command, trial.path()); }, how);
  } else {
    pipeline::OptimizeOptions passes;
    passes.passes.math = options.math;
    if (!options.rules.empty()) passes.passes.rules = rules_with(model.module->context(), options.rules);
    const driver::AuditOptions audit{.inputs = {.dims = options.dims}};
    std::unique_ptr<ir::Module> optimized = clone(*model.module);
    pipeline::OptimizeReport report;
    auto finding = driver::optimize_audited(*optimized, passes, report, audit);
    if (!finding) {
      throw Error(ErrorCode::InvalidArgument, "optimizing the model does not change its results")
          .with_hint("--command 'PROGRAM {}' reduces by another program's failure");
    }
    fmt::print(output.messages(), "{} {}: {}\n", finding->pass, finding->rule, finding->message);
    small = driver::reduce_finding(*finding, passes.passes, audit);
  }
  driver::save_model(*small, output.file());
  fmt::print(output.messages(), "{} → {} nodes: {}\n", before, small->num_operations(), options.output);
  output.finish();
  return kSuccess;
}

}  // namespace

Action add_reduce(CLI::App& app) {
  auto options = std::make_shared<ReduceOptions>();
  CLI::App* command = app.add_subcommand("reduce", "Shrink a model that shows a defect to a small one that still does");
  command->add_option("model", options->input, "an .onnx or .ir file, or file.py::function")->required()->type_name("FILE");
  command->add_option("-o,--output", options->output, "the small model, .onnx or .ir; - is standard output")
      ->required()
      ->type_name("FILE");
  command->add_option("--command", options->command,
                      "a command that fails on the defect, with {} for the model's file; without it, the defect "
                      "is that optimizing changes the result");
  add_math(*command, options->math);
  add_dims(*command, options->dims);
  command->add_option("--rules", options->rules, "a file of rules of your own, as for opt");
  command->add_option("--trials", options->trials, "smaller models to try at most")
      ->capture_default_str()
      ->check(whole_number(1, kMostRuns));
  command->footer("Example:\n  anfora reduce model.onnx -o small.onnx --command 'python3 compare.py {}'");
  return [options] { return run_reduce(*options); };
}

}  // namespace anfora::cli
