#include <fmt/format.h>

#include <unistd.h>

#include <CLI/App.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "anfora/error.h"
#include "cli/command.h"
#include "driver/model.h"
#include "ir/print.h"
#include "support/atomic_file.h"

namespace anfora::cli {
namespace {

struct Options {
  std::string model, output, format = "ir";
};

int run(const Options& options) {
  driver::LoadedModel model = driver::load_model(options.model);
  std::string text = ir::print(*model.module, {.elide_constants = true});
  if (options.output.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else {
    driver::save_model(*model.module, options.output);
  }
  return kSuccess;
}

}  // namespace

Action add_dump(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("dump", "Print a model as text, or draw it");
  command->add_option("model", options->model, "an .onnx or .ir file")->required();
  command->add_option("--format", options->format, "ir (default), dot or svg")->check(CLI::IsMember({"ir", "dot", "svg"}));
  command->add_option("-o,--output", options->output, "a file; standard output otherwise");
  command->footer("Example:\n  anfora dump model.onnx --format svg -o model.svg");
  return [options] { return run(*options); };
}

}  // namespace anfora::cli
