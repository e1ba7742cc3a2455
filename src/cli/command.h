// The commands of the program `anfora`, one file each. A command adds its options to the application and returns what
// runs when it was chosen; what that returns is the exit code.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "anfora/error.h"
#include "driver/pin.h"
#include "driver/tuning_cache.h"
#include "rewrite/rule.h"

namespace anfora::cli {

// Exit codes, as `anfora --help` lists them.
enum ExitCode : int {
  kSuccess = 0,
  kDiffers = 1,      // verify: the models, or a case, give different results; diff: the graphs are different
  kUsage = 2,        // wrong options
  kBadInput = 3,     // a model or a file is missing, broken or does not fit
  kUnsupported = 4,  // valid, but not implemented
  kInternal = 70,    // a defect of Anfora
  kTimedOut = 124,   // --timeout has passed
  kInterrupted = 130,
  kTerminated = 143,
};

// What is wrong with the options, or with a file that they name, and not with a model: the exit code is kUsage.
struct UsageError {
  Error error;
};

using Action = std::function<int()>;

// --math exact|finite|real, written to `promise`.
void add_math(CLI::App& command, rewrite::Promise& promise);
// --target: one of driver::targets(), by its name.
void add_target(CLI::App& command, std::string& target);

// --dim NAME=SIZE, any number of times, written to `dims`.
void add_dims(CLI::App& command, std::map<std::string, int64_t, std::less<>>& dims);
// --shape NAME=1,3,320,320, any number of times, and --batch N, written to `pins`.
void add_pins(CLI::App& command, driver::Pins& pins);

// For check(): a whole number in decimal digits, which takes the place of what was written; a finite number of seconds.
CLI::Validator whole_number(int64_t low, uint64_t high);
CLI::Validator seconds(double least);
inline constexpr double kMostSeconds = 1e6;
inline constexpr uint64_t kMostRuns = 1'000'000;

void add_threads(CLI::App& command, int& threads);
// --tune off|fast|full, written to `tune`.
void add_tune(CLI::App& command, driver::Tune& tune);
// --isa sets ANFORA_ISA, of this process.
void add_isa(CLI::App& command);
// --memory-limit, as CompileOptions::memory_limit.
void add_memory_limit(CLI::App& command, std::optional<int64_t>& bytes);
void add_seed(CLI::App& command, uint64_t& seed, const std::string& what);

Action add_info(CLI::App& app);
Action add_dump(CLI::App& app);
Action add_opt(CLI::App& app);
Action add_run(CLI::App& app);
Action add_bench(CLI::App& app);
Action add_verify(CLI::App& app);
Action add_operators(CLI::App& app);
Action add_passes(CLI::App& app);
Action add_reduce(CLI::App& app);
Action add_rules(CLI::App& app);
Action add_explain(CLI::App& app);
Action add_diff(CLI::App& app);
Action add_cfg(CLI::App& app);
Action add_grad(CLI::App& app);
Action add_compile(CLI::App& app);

}  // namespace anfora::cli
