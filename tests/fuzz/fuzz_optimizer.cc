// Differential fuzzing of the optimizer: random models (random_model.h) through all that must hold of every model
// (check_model.h).
//
// usage: fuzz_optimizer [--seed S] [--count N] [--first I] [--write FOLDER [--common-types]] [--no-reduce] [--print]
//                       [--coverage]
//
// --write leaves the models, before and after, for onnxruntime_check.py; --common-types draws those that ONNX Runtime has kernels
// for. --coverage tells which operators and rules came up. Model I of seed S is always the same one, so a finding is reproduced by `--seed S --first I --count 1`. Prints each finding
// with the reduced model, then how many models were what; exits with 1 when there is a finding.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "anfora/error.h"
#include "fuzz/check_model.h"
#include "ir/print.h"
#include "ops/registry.h"
#include "passes/pass.h"
#include "support/hash.h"

namespace anfora::fuzz {
namespace {

struct Command {
  uint64_t seed = 1;
  size_t first = 0, count = 200;
  bool prints = false, coverage = false, common_types = false;
  Options options;
};

Command parse(int argc, char** argv) {
  Command command;
  auto number = [&](int& i) { return i + 1 < argc ? std::strtoull(argv[++i], nullptr, 10) : 0; };
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    if (argument == "--seed") {
      command.seed = number(i);
    } else if (argument == "--count") {
      command.count = number(i);
    } else if (argument == "--first") {
      command.first = number(i);
    } else if (argument == "--write" && i + 1 < argc) {
      command.options.write = argv[++i];
      std::filesystem::create_directories(command.options.write);
    } else if (argument == "--no-reduce") {
      command.options.reduces = false;
    } else if (argument == "--print") {
      command.prints = true;
    } else if (argument == "--common-types") {
      command.common_types = true;
    } else if (argument == "--coverage") {
      command.coverage = true;
    } else {
      throw Error(ErrorCode::InvalidArgument, fmt::format("'{}' is no option", argument));
    }
  }
  return command;
}

void print_finding(uint64_t seed, size_t number, const Finding& finding) {
  fmt::print("FOUND --seed {} --first {}: {}{}\n  {}\n{}\n", seed, number, finding.what,
             finding.rule.empty() ? "" : fmt::format(" ({})", finding.rule), finding.detail, finding.model);
  std::fflush(stdout);
}

void print_coverage(const Counts& counts) {
  auto context = ops::make_context();
  auto rules = passes::standard_rules();
  std::string unused, unfired;
  size_t used = 0, fired = 0, all = 0;
  for (const ir::Operator* op : operators_of_models(*context)) {
    ++all;
    bool is_used = counts.operators.contains(op->qualified);
    used += is_used;
    if (!is_used) unused += " " + op->qualified;
  }
  for (const rewrite::Equation& equation : rules->equations()) {
    bool has_fired = counts.rules.contains(equation.name);
    fired += has_fired;
    if (!has_fired) unfired += fmt::format(" {}", equation.name);
  }
  fmt::print("{} of {} operators; never:{}\n{} of {} rules fired; never:{}\n", used, all, unused, fired,
             rules->equations().size(), unfired);
}

int run(const Command& command) {
  Counts counts;
  size_t undrawn = 0;
  auto start = std::chrono::steady_clock::now();
  for (size_t i = command.first; i < command.first + command.count; ++i) {
    Draw draw(hash_combine(command.seed, i));
    auto context = ops::make_context();
    const std::shared_ptr<const rewrite::RuleSet> rules = passes::standard_rules();
    auto model = random_model(*context, *rules, command.common_types, draw);
    if (!model) {
      ++undrawn;
      continue;
    }
    if (command.prints) fmt::print("{}\n", print(*model->module));
    for (const Finding& finding :
         check_model(*model, rules, draw, fmt::format("{}-{}", command.seed, i), command.options, counts)) {
      print_finding(command.seed, i, finding);
    }
  }
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("{} models, {} runs, {:.1f} s; {} applications, {} when optimized\n", counts.models, counts.runs, seconds,
             counts.applications, counts.applications_after);
  fmt::print("not counted: {} that could not be drawn, {} that run with no inputs, {} without a form in ONNX\n",
             undrawn, counts.refused, counts.unexportable);
  fmt::print("{} results equal only within the noise of their rounding; {} differ where the promise does not reach\n",
             counts.noisy, counts.not_covered);
  fmt::print("{} findings\n", counts.findings);
  if (command.coverage) print_coverage(counts);
  return counts.findings > 0 || counts.models == 0 ? 1 : 0;
}

}  // namespace
}  // namespace anfora::fuzz

int main(int argc, char** argv) {
  try {
    return anfora::fuzz::run(anfora::fuzz::parse(argc, argv));
  } catch (const anfora::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
