#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <memory>
#include <set>

#include "anfora/error.h"
#include "cli/command.h"
#include "cli/files.h"
#include "cli/text.h"
#include "driver/declared_shapes.h"
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
  bool random = false, no_optimize = false;
  rewrite::Promise math = rewrite::Promise::Real;
  uint64_t seed = 0;
  int threads = 0;
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

int run_run(const RunOptions& options) {
  Files files;
  files.reads(options.model).reads(options.inputs);
  files.writes("--output", options.output).writes("--profile", options.profile);
  files.check();
  auto load = [&] {
    driver::LoadedModel model = driver::load_model(options.model);
    driver::pin_shapes(*model.module, options.pins);
    return model;
  };
  driver::LoadedModel model = load();
  files.check_loaded();
  const auto parameters = model.module->main()->parameters();
  auto is_needed = [&](const ir::Parameter* p) { return model.module->default_of(p) == nullptr; };
  if (options.inputs.empty() && !options.random && std::ranges::any_of(parameters, is_needed)) {
    throw Error(ErrorCode::InvalidArgument, "no inputs are given")
        .with_hint("--input FILE, or --random to make some up");
  }
  std::vector<Datum> made_up;
  runtime::NamedData given;
  driver::require_dims(*model.module, options.dims);
  const driver::RandomInputs random{.seed = options.seed, .dims = options.dims};
  if (options.random) {
    made_up = driver::random_inputs(*model.module, random);
  } else {
    given = driver::read_inputs(*model.module, options.inputs);
    warn_if(driver::reload_if_contradicted(model, options.model, given));
  }
  const driver::DeclaredShapes declared(*model.module);
  runtime::Executable executable = driver::compile_model(
      std::move(model), {.threads = options.threads, .optimize = !options.no_optimize, .math = options.math});
  if (options.random) made_up = driver::fitting_inputs(executable, std::move(made_up), random, load);
  runtime::Profiler profiler;
  runtime::RunOptions how{.profiler = options.profile.empty() ? nullptr : &profiler, .seed = options.seed};
  std::vector<Datum> outputs =
      options.random ? executable.run(std::move(made_up), how) : executable.run(std::move(given), how);
  if (!options.profile.empty()) profiler.write_trace(options.profile);

  warn_if(declared.check_outputs(outputs));

  std::vector<std::pair<std::string, Tensor>> tensors;
  std::set<std::string_view> listed;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = executable.outputs()[i].name;
    if (listed.insert(name).second) collect(name, outputs[i], tensors);  // a model may list an output twice
  }
  if (!options.output.empty()) driver::write_npz(options.output, tensors);
  for (const auto& [name, tensor] : tensors)
    fmt::print("{}: {}[{}]\n", name, anfora::name(tensor.dtype()), to_string(tensor.shape()));
  if (!options.profile.empty()) {
    fmt::print("{}: open it in https://ui.perfetto.dev\n", options.profile);
    double all = 0;
    for (const auto& total : profiler.totals()) all += total.milliseconds;
    for (const auto& total : profiler.totals()) {
      if (total.milliseconds < all / 100) break;
      fmt::print("  {:<28} {:<24} {:>6} calls {:>9.3f} ms {:>5.1f} %\n", total.op, total.implementation, total.calls,
                 total.milliseconds, 100 * total.milliseconds / all);
    }
  }
  return kSuccess;
}

}  // namespace

Action add_run(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Run a model once");
  command->add_option("model", options->model, "an .onnx or .ir file")->required();
  command->add_option("--input", options->inputs,
                      ".npz by the inputs' names; .npy or .pb in their order, or NAME=FILE");
  command->add_flag("--random", options->random, "make up inputs");
  add_dims(*command, options->dims);
  add_seed(*command, options->seed, "of made-up inputs and of random operators");
  add_pins(*command, options->pins);
  command->add_option("--output", options->output, "an .npz file for the outputs");
  add_threads(*command, options->threads);
  command->add_option("--profile", options->profile, "a trace for Perfetto, and a table of where the time went");
  add_math(*command, options->math);
  command->add_flag("--no-optimize", options->no_optimize, "run the graph as it is");
  command->footer("Example:\n  anfora run model.onnx --input in.npz --output out.npz --profile trace.json");
  return [options] { return run_run(*options); };
}

}  // namespace anfora::cli
