// The public API (include/anfora/model.h) over the driver: only values of public types cross it.
#include <fmt/format.h>

#include <chrono>

#include "anfora/model.h"
#include "driver/model.h"
#include "driver/session.h"
#include "ir/readable.h"

namespace anfora {
namespace {

ValueInfo describe(std::string name, const ir::Type* type) {
  ValueInfo info{.name = std::move(name), .type = type ? readable(type) : "any[*]"};
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

// Text need not name what main returns.
std::vector<ValueInfo> describe_outputs(const ir::Module& module) {
  const ir::Type* type = module.main()->result()->type();
  const auto& names = module.output_names();
  const bool is_tuple = type && type->is_tuple();
  if (names.size() == 1 || (names.empty() && !is_tuple)) return {describe(names.empty() ? "" : names[0], type)};
  std::vector<ValueInfo> infos;
  for (size_t i = 0; i < (names.empty() ? type->elements().size() : names.size()); ++i) {
    infos.push_back(describe(i < names.size() ? names[i] : "", is_tuple ? type->element(i) : nullptr));
  }
  return infos;
}

pipeline::OptimizeReport optimize_for_file(ir::Module& module, const OptimizeOptions& options) {
  pipeline::OptimizeOptions passes = driver::optimizing_for(module);
  passes.passes.fold_limit = options.fold_limit;
  return pipeline::optimize(module, passes);
}

}  // namespace

// Where a model comes from, and what was done to it: enough to do it again.
struct Model::State {
  driver::LoadedModel loaded;
  std::filesystem::path path;
  std::vector<OptimizeOptions> optimized;
};

struct Executable::State {
  std::vector<ValueInfo> inputs, outputs;
  driver::Session session;
};

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Model Model::load(const std::filesystem::path& path) {
  return Model(std::make_unique<State>(driver::load_model(path), path));
}

std::vector<ValueInfo> Model::inputs() const { return describe_inputs(*state_->loaded.module); }
std::vector<ValueInfo> Model::outputs() const { return describe_outputs(*state_->loaded.module); }
size_t Model::num_operators() const { return state_->loaded.module->num_operations(); }

OptimizeReport Model::optimize(const OptimizeOptions& options) {
  auto start = std::chrono::steady_clock::now();
  ir::Module& module = *state_->loaded.module;
  pipeline::OptimizeReport report = optimize_for_file(module, options);
  state_->optimized.push_back(options);
  std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return {report.nodes_before, report.nodes_after, elapsed.count()};
}

void Model::save(const std::filesystem::path& path, const std::string& opset) const {
  driver::save_model(*state_->loaded.module, path, {.opset = opset});
}

Executable Model::compile(const CompileOptions& options) && {
  std::unique_ptr<State> state = std::move(state_);
  driver::LoadedModel loaded = std::move(state->loaded);
  std::vector<ValueInfo> inputs = describe_inputs(*loaded.module), outputs = describe_outputs(*loaded.module);
  auto prepare = [optimized = std::move(state->optimized)](ir::Module& module) {
    for (const OptimizeOptions& optimize : optimized) optimize_for_file(module, optimize);
  };
  const driver::CompileOptions how{.threads = options.threads, .optimize = options.optimize};
  return Executable(std::unique_ptr<Executable::State>(
      new Executable::State{std::move(inputs), std::move(outputs),
                            driver::Session(std::move(*loaded.module), state->path, std::move(prepare), how)}));
}

Executable::Executable(std::unique_ptr<State> state) : state_(std::move(state)) {}
Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&&) noexcept = default;
Executable::~Executable() = default;

std::vector<ValueInfo> Executable::inputs() const { return state_->inputs; }
std::vector<ValueInfo> Executable::outputs() const { return state_->outputs; }

NamedTensors Executable::run(const NamedTensors& inputs) const {
  std::vector<Datum> results = state_->session.run(runtime::NamedData(inputs.begin(), inputs.end()));
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
