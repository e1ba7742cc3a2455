#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>

#include "anfora/error.h"
#include "cli/command.h"
#include "cli/files.h"
#include "cli/output.h"
#include "cli/text.h"
#include "driver/compiled.h"
#include "driver/counted_work.h"
#include "driver/declared_shapes.h"
#include "driver/explained_run.h"
#include "driver/fit.h"
#include "driver/inputs.h"
#include "driver/model.h"
#include "driver/npz.h"

namespace anfora::cli {
namespace {

struct RunOptions {
  std::string model, output, profile;
  std::vector<std::string> inputs;
  driver::SizeByName dims;
  driver::Pins pins;
  bool random = false, no_optimize = false, json = false;
  rewrite::Promise math = rewrite::Promise::Real;
  uint64_t seed = 0;
  int threads = 0;
  driver::Tune tune = driver::Tune::Off;
};

// Sequences become NAME.0, NAME.1, …; maps NAME.keys and NAME.values; an absent optional nothing.
void collect(const std::string& name, const Datum& value, std::vector<std::pair<std::string, Tensor>>& into) {
  switch (value.kind()) {
    case Datum::Kind::Tensor: into.emplace_back(name, value.tensor()); return;
    case Datum::Kind::Sequence:
    case Datum::Kind::Tuple:
      for (size_t i = 0; i < value.items().size(); ++i) collect(fmt::format("{}.{}", name, i), value.items()[i], into);
      return;
    case Datum::Kind::Map:
      into.emplace_back(name + ".keys", value.as_map().keys);
      into.emplace_back(name + ".values", value.as_map().values);
      return;
    default: return;
  }
}

void warn_if(const driver::Contradiction& found) {
  if (found) fmt::print(stderr, "warning: {}\n", found.message);
}

constexpr size_t kRowsShown = 15;  // of a table; the last one sums up the others

struct Column {
  std::string_view heading;
  std::string (*text)(const runtime::Profiler::Total&);
};

// Operations, bytes, their rates, and the share of the roofline; dashes for what is not known.
std::string work_columns(const runtime::Profiler::Total& total) {
  const double seconds = 1e-3 * total.milliseconds;
  auto rate = [&](double amount) { return seconds > 0 ? fmt::format("{:.1f}", 1e-9 * amount / seconds) : "-"; };
  return fmt::format("{:>9} {:>9.2f} {:>8} {:>8} {:>6}",
                     total.work.flops ? fmt::format("{:.2f}", 1e-6 * *total.work.flops) : "-", 1e-6 * total.work.bytes,
                     total.work.flops ? rate(*total.work.flops) : "-", rate(total.work.bytes),
                     total.has_share() ? fmt::format("{:.1f}", 100 * total.share()) : "-");
}

// What a rate is beside.
std::string describe(const kernels::Roofline& roofline) {
  return fmt::format("roofline: {:.1f} GFLOP/s; {:.1f} GB/s from a cache, {:.1f} GB/s from memory",
                     1e-9 * roofline.flops_per_second, 1e-9 * roofline.readings.front().bytes_per_second,
                     1e-9 * roofline.readings.back().bytes_per_second);
}

nlohmann::ordered_json work_json(const runtime::Profiler::Total& total) {
  nlohmann::ordered_json json = {{"flops", nullptr}, {"bytes", total.work.bytes}, {"share_of_roofline", nullptr}};
  if (total.work.flops) json["flops"] = *total.work.flops;
  if (total.has_share()) json["share_of_roofline"] = total.share();
  return json;
}

void print_totals(std::FILE* to, std::span<const Column> columns, std::vector<runtime::Profiler::Total> totals) {
  double all = 0;
  for (const auto& total : totals) all += total.milliseconds;
  runtime::Profiler::Total others;
  const size_t shown = totals.size() > kRowsShown ? kRowsShown - 1 : totals.size();
  for (size_t i = shown; i < totals.size(); ++i) others.add(totals[i]);
  const size_t num_others = totals.size() - shown;
  totals.resize(shown);
  std::vector<size_t> widths;
  for (const Column& column : columns) {
    size_t width = display_width(std::string(column.heading));
    for (const auto& total : totals) width = std::max(width, display_width(column.text(total)));
    widths.push_back(width);
  }
  auto print_row = [&](const std::vector<std::string>& texts, const std::string& numbers) {
    fmt::print(to, " ");
    for (size_t i = 0; i < texts.size(); ++i) fmt::print(to, " {} ", left_aligned(texts[i], widths[i]));
    fmt::print(to, "{}\n", numbers);
  };
  auto numbers = [&](const runtime::Profiler::Total& total) {
    return fmt::format("{:>7} {:>10.3f} {:>6.1f} {}", total.calls, total.milliseconds,
                       all > 0 ? 100 * total.milliseconds / all : 0, work_columns(total));
  };
  std::vector<std::string> texts;
  for (const Column& column : columns) texts.emplace_back(column.heading);
  fmt::print(to, "{}", dim());
  print_row(texts, fmt::format("{:>7} {:>10} {:>6} {:>9} {:>9} {:>8} {:>8} {:>6}{}", "calls", "ms", "%", "MFLOP", "MB", "GFLOP/s",
                               "GB/s", "roof%", plain()));
  for (const auto& total : totals) {
    texts.clear();
    for (const Column& column : columns) texts.push_back(column.text(total));
    print_row(texts, numbers(total));
  }
  if (num_others == 0) return;
  texts.assign(columns.size(), "");
  texts[0] = fmt::format("{} others", num_others);
  print_row(texts, numbers(others));
}

runtime::Profiler::Total sum_of(std::span<const runtime::Profiler::Total> totals) {
  runtime::Profiler::Total sum;
  for (const auto& total : totals) sum.add(total);
  return sum;
}

nlohmann::ordered_json roofline_json(const kernels::Roofline& roofline) {
  nlohmann::ordered_json json = {{"flops_per_second", roofline.flops_per_second},
                                 {"reading", nlohmann::ordered_json::array()}};
  for (const auto& reading : roofline.readings) {
    json["reading"].push_back({{"bytes", reading.bytes}, {"bytes_per_second", reading.bytes_per_second}});
  }
  return json;
}

void print_profile(std::FILE* to, const runtime::Profiler& profiler) {
  static constexpr Column kOperator{"operator", [](const auto& total) { return total.op; }};
  static constexpr Column kKernel{"kernel", [](const auto& total) { return total.implementation; }};
  static constexpr Column kNode{"slowest nodes", [](const auto& total) { return total.node; }};
  const auto by_operator = profiler.totals();
  const runtime::Profiler::Total all = sum_of(by_operator);
  fmt::print(to, "one warm run: {:.3f} ms, {:.3f} ms of it in {}\n", profiler.milliseconds(), all.milliseconds,
             counted(all.calls, "kernel call"));
  fmt::print(to, "{}, {:.2f} MB in kernels", all.work.flops ? human_flops(*all.work.flops) : "FLOP unknown",
             1e-6 * all.work.bytes);
  if (all.has_share()) {
    fmt::print(to, ": {:.1f} GFLOP/s, {:.1f}% of the roofline", 1e-6 * *all.work.flops / all.milliseconds,
               100 * all.share());
  }
  fmt::print(to, "\n{}\n\n", describe(profiler.roofline()));
  const Column by[] = {kOperator, kKernel}, nodes[] = {kNode, kOperator, kKernel};
  print_totals(to, by, by_operator);
  fmt::print(to, "\n");
  print_totals(to, nodes, profiler.totals_by_node());
}

nlohmann::ordered_json totals_json(const std::vector<runtime::Profiler::Total>& totals) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const auto& total : totals) {
    json.push_back({{"operator", total.op},
                    {"kernel", total.implementation},
                    {"calls", total.calls},
                    {"milliseconds", total.milliseconds}});
    json.back().update(work_json(total));
    if (!total.node.empty()) json.back()["node"] = total.node;
  }
  return json;
}

// The outputs of one run, profiled where that is asked for: then a run before has planned its memory and warmed its caches.
template <class Inputs>
std::vector<Datum> run_once(runtime::Executable& executable, const Inputs& inputs, const RunOptions& options,
                            runtime::Profiler& profiler) {
  std::vector<Datum> outputs = driver::run_explained(executable, options.model, inputs, {.seed = options.seed});
  return options.profile.empty() ? outputs : executable.run(inputs, {.profiler = &profiler, .seed = options.seed});
}

int run_run(const RunOptions& options) {
  Files files;
  files.reads(options.model).reads(options.inputs);
  files.writes("--output", options.output).writes("--profile", options.profile);
  files.check();
  driver::Runnable source(options.model, options.pins,
                          {.threads = options.threads,
                           .optimize = !options.no_optimize,
                           .math = options.math,
                           .tune = options.tune,
                           .on_note = print_note});
  driver::LoadedModel model = source.load();
  files.check_loaded();
  const auto parameters = model.module->main()->parameters();
  auto is_needed = [&](const ir::Parameter* p) { return model.module->default_of(p) == nullptr; };
  if (options.inputs.empty() && !options.random && std::ranges::any_of(parameters, is_needed)) {
    throw Error(ErrorCode::InvalidArgument, "no inputs are given")
        .with_hint("--input FILE, or --random to make some up");
  }
  std::optional<Output> output;
  if (!options.output.empty()) output.emplace(options.output, ".npz");
  std::FILE* messages = output ? output->messages() : stdout;
  std::vector<Datum> made_up;
  runtime::NamedData given;
  driver::require_dims(*model.module, options.dims);
  const driver::RandomInputs random{.seed = options.seed, .dims = options.dims};
  if (options.random) {
    made_up = driver::random_inputs(*model.module, random);
  } else {
    given = driver::read_inputs(*model.module, options.inputs);
    if (!driver::is_compiled(options.model)) warn_if(driver::reload_if_contradicted(model, options.model, given));
  }
  const driver::DeclaredShapes declared(*model.module);
  std::optional<std::vector<Datum>> tune_inputs;
  if (!options.random) tune_inputs = driver::in_order(*model.module, given);
  if (options.random && !options.dims.empty()) tune_inputs = made_up;
  runtime::Executable executable = source.compile(std::move(model), std::move(tune_inputs));
  if (options.random) made_up = driver::fitting_inputs(executable, std::move(made_up), random, [&] { return source.load(); });
  runtime::Profiler profiler;
  if (!options.profile.empty()) {
    profiler = runtime::Profiler(driver::count_work(), driver::roofline_of_machine(executable.threads(), print_note));
  }
  std::vector<Datum> outputs = options.random ? run_once(executable, made_up, options, profiler)
                                              : run_once(executable, given, options, profiler);
  if (!options.profile.empty()) profiler.write_trace(options.profile);

  warn_if(declared.check_outputs(outputs));

  std::vector<std::pair<std::string, Tensor>> tensors;
  std::set<std::string_view> listed;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const std::string& name = executable.outputs()[k].name;
    if (listed.insert(name).second) collect(name, outputs[k], tensors);  // a model may list an output twice
  }
  if (output) {
    driver::write_npz(output->file(), tensors);
    output->finish();
  }
  if (options.json) {
    nlohmann::ordered_json json = {{"outputs", nlohmann::ordered_json::array()}};
    for (const auto& [name, tensor] : tensors) {
      json["outputs"].push_back({{"name", name}, {"type", anfora::name(tensor.dtype())}, {"shape", tensor.shape()}});
    }
    if (!options.profile.empty()) {
      json["profile"] = {{"trace", options.profile},
                         {"milliseconds", profiler.milliseconds()},
                         {"roofline", roofline_json(profiler.roofline())},
                         {"by_operator", totals_json(profiler.totals())},
                         {"by_node", totals_json(profiler.totals_by_node())}};
      json["profile"].update(work_json(sum_of(profiler.totals())));
    }
    print_json(messages, json);
    return kSuccess;
  }
  for (const auto& [name, tensor] : tensors) {
    fmt::print(messages, "{}: {}[{}]\n", name, anfora::name(tensor.dtype()), fmt::join(tensor.shape(), ", "));
  }
  if (options.profile.empty()) return kSuccess;
  fmt::print(messages, "\n");
  print_profile(messages, profiler);
  fmt::print(messages, "\n{}: open it in https://ui.perfetto.dev\n", options.profile);
  return kSuccess;
}

}  // namespace

Action add_run(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Run a model once");
  command->add_option("model", options->model, "an .onnx, .ir or .anf file, or file.py::function")->required()->type_name("FILE");
  command->add_option("--input", options->inputs, ".npz by the inputs' names; .npy or .pb in their order, or NAME=FILE")
      ->type_name("FILE");
  command->add_flag("--random", options->random, "make up inputs");
  add_dims(*command, options->dims);
  add_seed(*command, options->seed, "of made-up inputs and of random operators");
  add_pins(*command, options->pins);
  command->add_option("--output", options->output, "an .npz file for the outputs; - is standard output")
      ->type_name("FILE");
  add_threads(*command, options->threads);
  add_isa(*command);
  command
      ->add_option("--profile", options->profile,
                   "a file for a trace of one warm run, for Perfetto; and tables of where the time went")
      ->type_name("FILE");
  add_math(*command, options->math);
  add_tune(*command, options->tune);
  command->add_flag("--no-optimize", options->no_optimize, "run the graph as it is");
  command->add_flag("--json", options->json, "print JSON");
  command->footer("Example:\n  anfora run model.onnx --input in.npz --output out.npz --profile trace.json");
  return [options] { return run_run(*options); };
}

}  // namespace anfora::cli
