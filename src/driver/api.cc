// The public API (include/anfora/model.h) over the driver: only values of public types cross it.
#include <fmt/format.h>

#include <chrono>

#include "anfora/model.h"
#include "driver/model.h"

namespace anfora {
namespace {

ValueInfo describe(std::string name, const ir::Type* type) {
  ValueInfo info{.name = std::move(name), .type = type ? to_string(type) : "any[*]"};
  if (!type || !type->is_tensor()) return info;
  info.dtype = type->dtype();
  info.has_rank = type->has_rank();
  if (info.has_rank) {
    for (ir::Dim dim : type->dims()) info.shape.push_back(dim.is_constant() ? dim.constant() : kUnknownSize);
  }
  return info;
}

std::vector<ValueInfo> describe_inputs(const ir::Module& module) {
  std::vector<ValueInfo> infos;
  for (const ir::Parameter* parameter : module.main()->parameters()) {
    infos.push_back(describe(std::string(parameter->name()), parameter->type()));
  }
  return infos;
}

std::vector<ValueInfo> describe_outputs(const ir::Module& module) {
  const ir::Type* type = module.main()->result()->type();
  const auto& names = module.output_names();
  if (names.size() == 1) return {describe(names[0], type)};
  std::vector<ValueInfo> infos;
  for (size_t i = 0; i < names.size(); ++i) {
    infos.push_back(describe(names[i], type && type->is_tuple() ? type->element(i) : nullptr));
  }
  return infos;
}

}  // namespace

struct Model::State {
  driver::LoadedModel loaded;
};

struct Executable::State {
  runtime::Executable executable;
  std::vector<ValueInfo> inputs, outputs;
};

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Model Model::load(const std::filesystem::path& path) {
  return Model(std::make_unique<State>(driver::load_model(path)));
}

std::vector<ValueInfo> Model::inputs() const { return describe_inputs(*state_->loaded.module); }
std::vector<ValueInfo> Model::outputs() const { return describe_outputs(*state_->loaded.module); }
size_t Model::num_operators() const { return state_->loaded.module->num_operations(); }

OptimizeReport Model::optimize(const OptimizeOptions& options) {
  auto start = std::chrono::steady_clock::now();
  ir::Module& module = *state_->loaded.module;
  pipeline::OptimizeReport report = pipeline::optimize(module, {.passes = {.fold_limit = options.fold_limit,
                                                                           .has_operator = driver::expressible(module),
                                                                           .is_accurate = driver::is_accurate}});
  std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return {report.nodes_before, report.nodes_after, elapsed.count()};
}

void Model::save(const std::filesystem::path& path, const std::string& opset) const {
  driver::save_model(*state_->loaded.module, path, {.opset = opset});
}

Executable Model::compile(const CompileOptions& options) && {
  driver::LoadedModel loaded = std::move(state_->loaded);
  state_.reset();
  std::vector<ValueInfo> inputs = describe_inputs(*loaded.module), outputs = describe_outputs(*loaded.module);
  runtime::Executable executable =
      driver::compile_model(std::move(loaded), {.threads = options.threads, .optimize = options.optimize});
  return Executable(std::unique_ptr<Executable::State>(
      new Executable::State{std::move(executable), std::move(inputs), std::move(outputs)}));
}

Executable::Executable(std::unique_ptr<State> state) : state_(std::move(state)) {}
Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&&) noexcept = default;
Executable::~Executable() = default;

std::vector<ValueInfo> Executable::inputs() const { return state_->inputs; }
std::vector<ValueInfo> Executable::outputs() const { return state_->outputs; }

NamedTensors Executable::run(const NamedTensors& inputs) {
  runtime::NamedData data(inputs.begin(), inputs.end());
  std::vector<Datum> results = state_->executable.run(std::move(data));
  NamedTensors outputs;
  for (size_t i = 0; i < results.size(); ++i) {
    const ValueInfo& info = state_->outputs[i];
    if (!results[i].is_tensor()) {
      throw Error(ErrorCode::Unsupported, fmt::format("output '{}' is {}, not a tensor", info.name, info.type));
    }
    outputs.emplace(info.name, results[i].tensor());
  }
  return outputs;
}

}  // namespace anfora
