#include "driver/compiled.h"

#include "analysis/infer.h"
#include "anfora/error.h"
#include "ir/builder.h"
#include "ir/parse.h"
#include "ops/registry.h"

namespace anfora::driver {

LoadedModel interface_of(const runtime::Signature& signature) {
  LoadedModel model;
  model.context = ops::make_context();
  model.module = std::make_unique<ir::Module>(*model.context);
  ir::Builder main(*model.module, "main");
  for (const runtime::ValueSpec& input : signature.inputs) {
    ir::Parameter* parameter = main.parameter(input.type, input.name);
    if (!input.otherwise) continue;
    ir::Value* otherwise =
        input.otherwise->is_tensor() ? model.module->constant(input.otherwise->tensor()) : main.none();
    model.module->set_default(parameter, otherwise);
  }
  main.returns(main.none());
  analysis::infer_types(*model.module);
  return model;
}

NamedTypes named_types(ir::Context& context, std::span<const runtime::ValueSpec> values) {
  NamedTypes types;
  for (const runtime::ValueSpec& value : values) types.push_back({value.name, ir::parse_type(context, value.type)});
  return types;
}

Runnable::Runnable(std::filesystem::path path, Pins pins, CompileOptions options)
    : path_(std::move(path)), pins_(std::move(pins)), options_(options) {
  if (!is_compiled(path_)) return;
  if (!pins_.empty() || !options_.optimize || options_.tune != Tune::Off) {
    throw Error(ErrorCode::InvalidArgument, "sizes are fixed, graphs left as they are, and kernels tuned when a model is compiled")
        .with_hint("give the option to `anfora compile`");
  }
  compiled_ = runtime::load_artifact(path_, {.threads = options_.threads});
  signature_ = compiled_->signature();
}

LoadedModel Runnable::load() const {
  if (is_compiled(path_)) return interface_of(signature_);
  LoadedModel model = load_model(path_);
  pin_shapes(*model.module, pins_);
  return model;
}

runtime::Executable Runnable::compile(LoadedModel&& loaded, std::optional<std::vector<Datum>> tune_inputs) {
  options_.tune_inputs = std::move(tune_inputs);
  return compiled_ ? std::move(*compiled_) : compile_model(std::move(loaded), options_);
}

}  // namespace anfora::driver
