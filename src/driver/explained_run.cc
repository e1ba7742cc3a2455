#include "driver/explained_run.h"

#include <new>
#include <optional>

#include "anfora/error.h"

namespace anfora::driver {
namespace {

// Whether an error is of a kernel about its operands.
bool is_about_operands(const Error& error) {
  return !error.node().empty() &&
         (error.code() == ErrorCode::TypeMismatch || error.code() == ErrorCode::InvalidArgument);
}

// What the model as it was written says to the inputs; nothing where it takes them, or fails otherwise.
std::optional<Error> own_error(const ModelSource& source, std::span<const Datum> inputs,
                               const runtime::RunOptions& options) {
  try {
    LoadedModel model = load_model(source);
    if (has_effects(*model.module)) return std::nullopt;
    runtime::Executable as_written = compile_as_is(*model.module, {.threads = options.threads});
    as_written.run(std::vector<Datum>(inputs.begin(), inputs.end()),
                   {.threads = options.threads, .seed = options.seed});
  } catch (const Error& error) {
    if (is_about_operands(error)) return error;
  } catch (const std::bad_alloc&) {
  }
  return std::nullopt;
}

}  // namespace

bool has_effects(const ir::Module& module) {
  for (const ir::Graph* graph : module.graphs()) {
    for (const ir::Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
      if (node->op().effect == ir::Effect::State) return true;
    }
  }
  return false;
}

void run_explained(const runtime::Executable& executable, const ModelSource& source, std::span<const Datum> inputs,
                   std::span<Datum> outputs, const runtime::RunOptions& options) {
  try {
    executable.run(inputs, outputs, options);
  } catch (const Error& error) {
    if (!is_about_operands(error) || (source.is_file() && source.path.empty()) || is_compiled(source.path)) throw;
    if (auto told = own_error(source, inputs, options)) throw *told;
    throw;
  }
}

std::vector<Datum> run_explained(const runtime::Executable& executable, const ModelSource& source,
                                 const std::vector<Datum>& inputs, const runtime::RunOptions& options) {
  std::vector<Datum> outputs(executable.outputs().size());
  run_explained(executable, source, inputs, outputs, options);
  return outputs;
}

std::vector<Datum> run_explained(const runtime::Executable& executable, const ModelSource& source,
                                 const runtime::NamedData& inputs, const runtime::RunOptions& options) {
  return run_explained(executable, source, executable.in_order(inputs), options);
}

}  // namespace anfora::driver
