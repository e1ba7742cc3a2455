#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/text.h"
#include "driver/compiled.h"
#include "driver/counted_work.h"
#include "driver/explained_run.h"
#include "driver/fit.h"
#include "driver/inputs.h"
#include "driver/model.h"
#include "support/resident_memory.h"

namespace anfora::cli {
namespace {

struct BenchOptions {
  std::string model;
  std::vector<std::string> inputs;
  driver::SizeByName dims;
  driver::Pins pins;
  int threads = 0;
  double seconds = 3;
  bool json = false;
  rewrite::Promise math = rewrite::Promise::Real;
  driver::Tune tune = driver::Tune::Off;
};

constexpr int kFewestRuns = 3;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Of all threads of the process.
double cpu_time() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Of one more run; nothing where it is not known of some kernel.
std::optional<double> flops_of_run(runtime::Executable& executable, std::span<const Datum> inputs,
                                   const kernels::Roofline& roofline) {
  runtime::Profiler profiler(driver::count_work(), roofline);
  executable.run(std::vector<Datum>(inputs.begin(), inputs.end()), {.profiler = &profiler});
  runtime::Profiler::Total total;
  for (const auto& by_operator : profiler.totals()) total.add(by_operator);
  return total.work.flops;
}

// In milliseconds.
double median_of(std::vector<double>& seconds) {
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2] * 1e3;
}

int run_bench(const BenchOptions& options) {
  reset_peak_resident_bytes();
  int64_t memory_before = resident_bytes();
  double start = now();
  driver::Runnable source(
      options.model, options.pins,
      {.threads = options.threads, .math = options.math, .tune = options.tune, .on_note = print_note});
  driver::LoadedModel model = source.load();
  driver::require_dims(*model.module, options.dims);
  std::vector<Datum> inputs;
  const driver::RandomInputs made_up{.dims = options.dims};
  if (options.inputs.empty()) {
    inputs = driver::random_inputs(*model.module, made_up);
  } else {
    inputs = driver::in_order(*model.module, driver::read_inputs(*model.module, options.inputs));
  }
  const bool has_inputs = !options.inputs.empty() || !options.dims.empty();
  runtime::Executable executable = source.compile(std::move(model), has_inputs ? std::optional(inputs) : std::nullopt);
  double load = now() - start;

  // The first run of a shape plans its memory.
  if (options.inputs.empty()) {
    inputs = driver::fitting_inputs(executable, std::move(inputs), made_up, [&] { return source.load(); });
  }
  driver::run_explained(executable, options.model, inputs);
  Progress progress("measuring");
  std::vector<double> times, cpu_times;
  double begin = now();
  while (times.size() < kFewestRuns || now() - begin < options.seconds) {
    double before = now(), cpu_before = cpu_time();
    executable.run(inputs);
    cpu_times.push_back(cpu_time() - cpu_before);
    times.push_back(now() - before);
    progress.update(std::min(1.0, (now() - begin) / options.seconds), fmt::format("{} runs", times.size()));
  }
  const double median = median_of(times), least = times[0] * 1e3;
  int64_t added = peak_resident_bytes() - memory_before;
  const runtime::MemoryReport memory = executable.memory();
  const kernels::Roofline roofline = driver::roofline_of_machine(executable.threads(), print_note);
  const std::optional<double> flops = flops_of_run(executable, inputs, roofline);
  const double rate = flops.value_or(0) / (median * 1e-3);
  if (options.json) {
    nlohmann::json json = {
        {"median_ms", median},       {"min_ms", least},      {"cpu_ms", median_of(cpu_times)}, {"load_s", load},
        {"peak_added_bytes", added}, {"arena_bytes", memory.arena_bytes}, {"arena_lower_bound", memory.arena_lower_bound},
        {"runs", times.size()},      {"threads", options.threads}};
    json["peak_flops_per_second"] = roofline.flops_per_second;
    json["flops"] = flops ? nlohmann::json(*flops) : nlohmann::json();
    json["flops_per_second"] = flops ? nlohmann::json(rate) : nlohmann::json();
    json["share_of_peak"] = flops ? nlohmann::json(rate / roofline.flops_per_second) : nlohmann::json();
    fmt::print("{}\n", json.dump());
  } else {
    fmt::print("median {:.3f} ms, fastest {:.3f} ms of {} runs; loaded in {:.2f} s; peak memory {}\n", median, least,
               times.size(), load, human_bytes(added));
    if (flops) {
      fmt::print("{} a run, {:.1f} GFLOP/s: {:.1f}% of the peak of {:.1f} GFLOP/s\n", human_flops(*flops), 1e-9 * rate,
                 100 * rate / roofline.flops_per_second, 1e-9 * roofline.flops_per_second);
    } else {
      fmt::print("FLOP unknown: some operators do not say what they take\n");
    }
  }
  return kSuccess;
}

}  // namespace

Action add_bench(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand("bench", "Measure a model: time to load, latency, memory");
  command->add_option("model", options->model, "an .onnx, .ir or .anf file, or file.py::function")
      ->required()
      ->type_name("FILE");
  command->add_option("--input", options->inputs, "as for `run`; made up where not given")->type_name("FILE");
  add_threads(*command, options->threads);
  add_isa(*command);
  command->add_option("--seconds", options->seconds, "how long to measure")->capture_default_str()->check(seconds(0));
  add_dims(*command, options->dims);
  add_pins(*command, options->pins);
  add_math(*command, options->math);
  add_tune(*command, options->tune);
  command->add_flag("--json", options->json, "print JSON");
  command->footer("Example:\n  anfora bench model.onnx --input in.npz --threads 2 --seconds 5 --json");
  return [options] { return run_bench(*options); };
}

}  // namespace anfora::cli
