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
#include "ir/dot.h"
#include "ir/print.h"
#include "support/atomic_file.h"

namespace anfora::cli {
namespace {

struct Options {
  std::string model, output, format = "ir";
};

void write_file(const std::filesystem::path& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

// Graphviz draws.
std::string svg_of(const std::string& dot) {
  std::filesystem::path source = std::filesystem::temp_directory_path() / fmt::format("anfora-{}.dot", getpid());
  write_file(source, dot);
  std::FILE* pipe = popen(fmt::format("dot -Tsvg '{}' 2>/dev/null", source.string()).c_str(), "r");
  std::string svg;
  char chunk[65536];
  for (size_t got; pipe && (got = std::fread(chunk, 1, sizeof chunk, pipe)) > 0;) svg.append(chunk, got);
  int status = pipe ? pclose(pipe) : -1;
  std::filesystem::remove(source);
  if (status != 0 || svg.empty()) {
    throw Error(ErrorCode::Unsupported, "the graph could not be drawn: Graphviz's `dot` is not installed or failed")
        .with_hint("apt-get install graphviz, or --format dot");
  }
  return svg;
}

int run(const Options& options) {
  driver::LoadedModel model = driver::load_model(options.model);
  std::string text = options.format == "ir" ? ir::print(*model.module) : ir::to_dot(*model.module);
  if (options.format == "svg") text = svg_of(text);
  if (options.output.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else if (options.format == "ir") {
    driver::save_model(*model.module, options.output);
  } else {
    write_file(options.output, text);
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
