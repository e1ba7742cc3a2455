// `anfora grad`: a model that computes, beside its outputs, the gradients of one of them.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/files.h"
#include "cli/output.h"
#include "driver/gradient.h"
#include "driver/model.h"
#include "driver/name_patterns.h"
#include "driver/optimize.h"

namespace anfora::cli {
namespace {

struct GradOptions {
  std::string input, output;
  driver::GradientOptions gradient;
  driver::OptimizeOptions how;
};

int run_grad(const GradOptions& options) {
  Files files;
  files.reads(options.input).writes("--output", options.output, true).check();
  // Weights that are differentiated by are parameters.
  driver::NamePatterns weights(options.gradient.by);
  driver::LoadedModel model = driver::load_model(options.input, [&](std::string_view name) { return weights.matches(name); });
  files.check_loaded();
  const size_t results = model.module->output_names().size();
  driver::differentiate(*model.module, options.gradient);
  driver::optimize(*model.module, options.how);
  const driver::SaveReport saved = driver::save_model(*model.module, options.output, driver::save_options(options.how));
  const std::vector<std::string>& names = model.module->output_names();
  for (size_t i = results; i < names.size(); ++i) fmt::print("{}\n", names[i]);
  if (!saved.note.empty()) fmt::print(stderr, "{}\n", saved.note);
  return kSuccess;
}

}  // namespace

Action add_grad(CLI::App& app) {
  auto options = std::make_shared<GradOptions>();
  CLI::App* command = app.add_subcommand("grad", "Write a model with the gradients of an output beside its outputs");
  command->add_option("model", options->input, "an .onnx or .ir file")->required()->type_name("FILE");
  command->add_option("-o,--output", options->output, "the model with gradients, .onnx or .ir")->required()->type_name("FILE");
  command
      ->add_option("--wrt", options->gradient.by,
                   "inputs and weights to differentiate by, *, ? and [a-z] as in a shell (default: all inputs of floats); "
                   "the gradient of x is the output x.grad")
      ->type_name("PATTERN");
  command->add_option("--of", options->gradient.of, "the output to differentiate, the sum of its elements where it has several")
      ->type_name("NAME");
  command
      ->add_option("--checkpoints", options->gradient.checkpoints,
                   "keep that many states of a loop, and repeat the iterations between them (default: what each iteration leaves is kept)")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  command->add_option("--opset", options->how.opset, "the operator set to write, as for opt: keep (default), newest or a number")->type_name("SET");
  add_math(*command, options->how.math);
  command->footer("Example:\n  anfora grad model.onnx --of loss --wrt 'layer1.*' -o grad.onnx");
  return [options] { return run_grad(*options); };
}

}  // namespace anfora::cli
