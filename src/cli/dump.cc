#include <fmt/format.h>

#include <CLI/App.hpp>
#include <memory>

#include "cli/command.h"
#include "cli/files.h"
#include "cli/output.h"
#include "driver/model.h"
#include "ir/dot.h"
#include "ir/print.h"
#include "ir/text_file.h"

namespace anfora::cli {
namespace {

struct DumpOptions {
  std::string model, output, format = "ir", part;
  bool every_node = false;
};

int run_dump(const DumpOptions& options) {
  Files files;
  files.reads(options.model).writes("--output", options.output, options.format == "ir").check();
  driver::LoadedModel model = driver::load_model(options.model);
  files.check_loaded();
  const ir::Module& module = *model.module;
  const bool is_text = options.format == "ir", is_file = !options.output.empty() && options.output != kStandardOutput;
  if (is_text && is_file) {
    ir::write_text_file(module, options.output);
    return kSuccess;
  }
  std::string text = is_text ? ir::print(module, {.elide_constants = true})
                             : ir::to_dot(module, {.collapse = !options.every_node, .part = options.part});
  if (options.format == "svg") text = draw(text);
  write_text(options.output, text);
  return kSuccess;
}

}  // namespace

Action add_dump(CLI::App& app) {
  auto options = std::make_shared<DumpOptions>();
  CLI::App* command = app.add_subcommand("dump", "Print a model as text or draw it");
  command->add_option("model", options->model, "an .onnx or .ir file, or file.py::function")->required()->type_name("FILE");
  command->add_option("--format", options->format, "ir (default), dot or svg")
      ->check(CLI::IsMember({"ir", "dot", "svg"}));
  command->add_option("-o,--output", options->output, "a file; standard output otherwise, and for -")
      ->type_name("FILE");
  CLI::Option* part =
      command
          ->add_option("--part", options->part,
                       "of a large model, draw the part that the picture of the whole calls so: 3, or 3.2")
          ->type_name("NUMBER");
  command
      ->add_flag("--every-node", options->every_node,
                 "draw each node: repeated layers again, and no parts; slow from some thousand nodes on")
      ->excludes(part);
  command->footer("Example:\n  anfora dump model.onnx --format svg -o model.svg");
  return [options] { return run_dump(*options); };
}

}  // namespace anfora::cli
