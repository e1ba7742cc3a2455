#include <fmt/format.h>

#include <CLI/App.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "anfora/error.h"
#include "cli/command.h"
#include "cli/files.h"
#include "driver/model.h"
#include "ir/dot.h"
#include "ir/print.h"
#include "ir/text_file.h"
#include "support/atomic_file.h"

namespace anfora::cli {
namespace {

struct DumpOptions {
  std::string model, output, format = "ir";
};

// Graphviz' `dot` draws; it reads a file, since a pipe to and from it could block.
std::string draw(const std::string& dot) {
  const TemporaryFile source(temporary_name(std::filesystem::temp_directory_path() / "anfora.dot"));
  {
    AtomicFile file(source.path());
    file.write(dot);
    file.commit();
  }
  std::string svg;
  FILE* pipe = popen(fmt::format("dot -Tsvg '{}'", source.path().string()).c_str(), "r");
  char buffer[1 << 16];
  for (size_t n; pipe && (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) svg.append(buffer, n);
  int status = pipe ? pclose(pipe) : -1;
  if (status != 0) {
    throw Error(ErrorCode::NotFound, "drawing needs Graphviz' program `dot`, which failed or is not installed")
        .with_hint("--format dot writes its input");
  }
  return svg;
}

int run_dump(const DumpOptions& options) {
  Files files;
  files.reads(options.model).writes("--output", options.output, options.format == "ir").check();
  driver::LoadedModel model = driver::load_model(options.model);
  files.check_loaded();
  const ir::Module& module = *model.module;
  if (options.format == "ir" && !options.output.empty()) {
    ir::write_text_file(module, options.output);
    return kSuccess;
  }
  std::string text = options.format == "ir" ? ir::print(module, {.elide_constants = true}) : ir::to_dot(module);
  if (options.format == "svg") text = draw(text);
  if (options.output.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else {
    AtomicFile file(options.output);
    file.write(text);
    file.commit();
  }
  return kSuccess;
}

}  // namespace

Action add_dump(CLI::App& app) {
  auto options = std::make_shared<DumpOptions>();
  CLI::App* command = app.add_subcommand("dump", "Print a model as text, or draw it");
  command->add_option("model", options->model, "an .onnx or .ir file")->required();
  command->add_option("--format", options->format, "ir (default), dot or svg")
      ->check(CLI::IsMember({"ir", "dot", "svg"}));
  command->add_option("-o,--output", options->output, "a file; standard output otherwise");
  command->footer("Example:\n  anfora dump model.onnx --format svg -o model.svg");
  return [options] { return run_dump(*options); };
}

}  // namespace anfora::cli
