// The public API for models (include/anfora/model.h) over the driver: only values of public types cross it.
#include <chrono>
#include <optional>

#include "anfora/model.h"
#include "driver/interface.h"
#include "driver/optimize.h"
#include "driver/session.h"
#include "ir/readable.h"
#include "runtime/public_executable.h"
#include "support/release_elements.h"

namespace anfora {
namespace {

ValueInfo describe(std::string name, const ir::Type* type) {
  ValueInfo info{.name = std::move(name), .type = readable(type)};
  if (!type || !type->is_tensor()) return info;
  info.dtype = type->dtype();
  info.has_rank = type->has_rank();
  if (info.has_rank) {
    for (ir::Dim dim : type->dims()) info.shape.push_back(dim.is_constant() ? dim.constant() : kUnknownSize);
  }
  return info;
}

std::vector<ValueInfo> describe(const driver::NamedTypes& values) {
  std::vector<ValueInfo> infos;
  for (const auto& [name, type] : values) infos.push_back(describe(name, type));
  return infos;
}

rewrite::Promise promise_of(Math math) {
  switch (math) {
    case Math::Exact: return rewrite::Promise::Exact;
    case Math::Finite: return rewrite::Promise::Finite;
    case Math::Real: break;
  }
  return rewrite::Promise::Real;
}

driver::Tune of_driver(Tune tune) {
  switch (tune) {
    case Tune::Off: break;
    case Tune::Fast: return driver::Tune::Fast;
    case Tune::Full: return driver::Tune::Full;
  }
  return driver::Tune::Off;
}

driver::OptimizeOptions of_driver(const OptimizeOptions& options) {
  return {.target = options.target,
          .opset = options.opset,
          .math = promise_of(options.math),
          .fold_limit = options.fold_limit,
          .rules = options.rules};
}

Error moved_from() {
  return Error(ErrorCode::InvalidArgument, "this model was moved from").with_hint("compile() consumes a model");
}

}  // namespace

// Where a model comes from, and what was done to it: enough to do it again.
struct Model::State {
  driver::LoadedModel loaded;
  driver::ModelSource source;
  std::vector<driver::OptimizeOptions> optimized;
};

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Model Model::load(const std::filesystem::path& path) {
  return Model(std::make_unique<State>(driver::load_model(path), path));
}

Model Model::load(std::span<const std::byte> bytes, std::shared_ptr<void> owner) {
  if (!owner) {
    auto copy = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
    bytes = *copy;
    owner = std::move(copy);
  }
  driver::ModelSource source(bytes, std::move(owner));
  driver::LoadedModel loaded = driver::load_model(source);
  return Model(std::make_unique<State>(std::move(loaded), std::move(source)));
}

Model::State& Model::state() const {
  if (!state_) throw moved_from();
  return *state_;
}

std::vector<ValueInfo> Model::inputs() const { return describe(driver::inputs_of(*state().loaded.module)); }
std::vector<ValueInfo> Model::outputs() const { return describe(driver::outputs_of(*state().loaded.module)); }
size_t Model::num_operators() const { return state().loaded.module->num_operations(); }

std::map<std::string, std::string> Model::metadata() const {
  const ir::Metadata& all = state().loaded.module->metadata();
  std::map<std::string, std::string> metadata(all.properties.begin(), all.properties.end());
  auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) metadata.emplace(key, value);
  };
  add("producer_name", all.producer);
  add("producer_version", all.producer_version);
  add("domain", all.domain);
  add("doc_string", all.doc);
  return metadata;
}

OptimizeReport Model::optimize(const OptimizeOptions& options) {
  auto start = std::chrono::steady_clock::now();
  ir::Module& module = *state().loaded.module;
  driver::OptimizeOptions how = of_driver(options);
  pipeline::OptimizeReport report = driver::optimize(module, how);
  state_->optimized.push_back(std::move(how));
  std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return {report.nodes_before, report.nodes_after, elapsed.count()};
}

void Model::save(const std::filesystem::path& path, const std::string& opset) const {
  const State& from = state();
  driver::SaveOptions options;
  if (!from.optimized.empty()) options = driver::save_options(from.optimized.back());
  if (opset != "keep") options.opset = opset;
  driver::save_model(*from.loaded.module, path, options);
}

Executable Model::compile(const CompileOptions& options) && {
  if (!state_) throw moved_from();
  runtime::require_threads(options.threads);
  std::unique_ptr<State> state = std::move(state_);
  std::optional<driver::LoadedModel> loaded = std::move(state->loaded);
  std::vector<ValueInfo> inputs = describe(driver::inputs_of(*loaded->module));
  std::vector<ValueInfo> outputs = describe(driver::outputs_of(*loaded->module));
  auto prepare = [optimized = std::move(state->optimized)](ir::Module& module) {
    for (const driver::OptimizeOptions& how : optimized) driver::optimize(module, how);
  };
  const driver::CompileOptions how{.threads = options.threads,
                                   .optimize = options.optimize,
                                   .math = promise_of(options.math),
                                   .donate = options.donate,
                                   .tune = of_driver(options.tune)};
  auto session = std::make_unique<driver::Session>(std::move(*loaded->module), state->source, std::move(prepare), how);
  loaded.reset();
  release_free_memory();
  return Executable(std::unique_ptr<Executable::State>(
      new Executable::State{std::move(inputs), std::move(outputs), std::move(session)}));
}

}  // namespace anfora
