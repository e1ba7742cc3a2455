#include <fmt/format.h>

#include <CLI/App.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "anfora/error.h"
#include "cli/command.h"
#include "cli/text.h"
#include "driver/agreement.h"
#include "driver/cases.h"
#include "driver/model.h"

namespace anfora::cli {
namespace {

struct VerifyOptions {
  std::vector<std::string> models, cases, inputs;
  int runs = 3;
  uint64_t seed = 0;
  driver::SizeByName dims;
  driver::Pins pins;
  bool json = false, optimize = false;
  rewrite::Promise math = rewrite::Promise::Real;
};

int run_cases(const VerifyOptions& options) {
  size_t passed = 0, failed = 0;
  Progress progress("cases");
  for (const std::string& folder : options.cases) {
    driver::CaseResult result = driver::run_case(folder, {.optimize = options.optimize, .math = options.math});
    ++(result.passed ? passed : failed);
    if (!result.passed) {
      fmt::print("{}: {}\n", std::filesystem::path(folder).lexically_normal().filename().string(), result.message);
    }
    progress.update(static_cast<double>(passed + failed) / static_cast<double>(options.cases.size()));
  }
  fmt::print("{} passed, {} failed\n", passed, failed);
  return failed ? kDiffers : kSuccess;
}

int compare_models(const VerifyOptions& options) {
  driver::LoadedModel a = driver::load_model(options.models[0]), b = driver::load_model(options.models[1]);
  driver::pin_shapes(*a.module, options.pins);
  driver::require_dims(*a.module, options.dims);
  driver::AgreementOptions how{
      .runs = options.runs, .seed = options.seed, .dims = options.dims, .promise = options.math};
  if (!options.inputs.empty()) how.given = driver::in_order(*a.module, driver::read_inputs(*a.module, options.inputs));
  runtime::Executable run_a = driver::compile_as_is(*a.module), run_b = driver::compile_as_is(*b.module);
  driver::Agreement agreement = driver::check_agreement(*a.module, run_a, *b.module, run_b, how);
  if (options.json) {
    nlohmann::json json = {{"max_difference", agreement.worst},
                           {"max_relative_difference", agreement.worst_relative},
                           {"output", agreement.output},
                           {"message", agreement.message}};
    if (agreement.is_compared()) {
      json["same"] = agreement.same;
    } else {
      json["same"] = nullptr;
      json["not_compared"] = agreement.not_compared;
    }
    fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else if (!agreement.same) {
    fmt::print("{}different{}: {}\n", red(), plain(), agreement.message);
  } else if (!agreement.is_compared()) {
    fmt::print("{}NOT VERIFIED{}: made-up inputs do not fit. Try {}{}--input in.npz\n  {}\n", yellow(), plain(),
               agreement.suggestion, agreement.suggestion.empty() ? "" : ", or ", agreement.not_compared);
  } else {
    const std::string inputs = options.inputs.empty()
                                   ? fmt::format("{} random inputs and one of edge values", options.runs)
                                   : "the given inputs";
    fmt::print("{}same outputs{} on {}{}; largest difference {:.1e} of the largest element, on output '{}'\n", green(),
               plain(), inputs, agreement.found.empty() ? "" : " with " + agreement.found, agreement.worst_relative,
               agreement.output);
    if (agreement.errors) fmt::print("{}\n", agreement.errors->text());
  }
  if (!agreement.same) return kDiffers;
  return agreement.is_compared() ? kSuccess : kBadInput;
}

int run_verify(const VerifyOptions& options) {
  if (!options.cases.empty()) return run_cases(options);
  if (options.models.size() != 2) {
    throw Error(ErrorCode::InvalidArgument, "two models are needed, or --case and folders")
        .with_hint("anfora verify --help");
  }
  return compare_models(options);
}

}  // namespace

Action add_verify(CLI::App& app) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command =
      app.add_subcommand("verify", "Do two models compute the same function? Or: run conformance cases");
  command->add_option("models", options->models, "two .onnx or .ir files");
  command->add_option("--case", options->cases, "folders in the layout of ONNX's backend tests");
  command->add_option("--runs", options->runs, "random inputs to compare on")
      ->capture_default_str()
      ->check(whole_number(1, kMostRuns));
  add_seed(*command, options->seed, "of the inputs");
  command->add_option("--input", options->inputs,
                      "compare on these instead of made-up inputs: .npz by the inputs' names; .npy or .pb in their "
                      "order, or NAME=FILE");
  add_dims(*command, options->dims);
  add_pins(*command, options->pins);
  command->add_flag("--optimize", options->optimize,
                    "run the cases as `run` does: optimized, and lowered for this machine");
  add_math(*command, options->math);
  command->add_flag("--json", options->json, "print JSON");
  command->footer(
      "Examples:\n  anfora verify model.onnx small.onnx\n  anfora verify --case suite/test_relu suite/test_add");
  return [options] { return run_verify(*options); };
}

}  // namespace anfora::cli
