// The public API for compiled models (include/anfora/executable.h).
#include "runtime/public_executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <utility>

#include "anfora/error.h"
#include "runtime/artifact.h"
#include "support/nearest.h"

namespace anfora {
namespace runtime {

void require_threads(int threads) {
  if (threads < 0) throw Error(ErrorCode::InvalidArgument, fmt::format("{} is no number of threads", threads));
}

std::vector<ValueInfo> value_infos(std::span<const ValueSpec> values) {
  std::vector<ValueInfo> infos;
  for (const ValueSpec& value : values) {
    infos.push_back({.name = value.name,
                     .type = value.type,
                     .dtype = value.dtype,
                     .has_rank = value.dims.has_value(),
                     .shape = {}});
    if (!value.dims) continue;
    for (const SizeExpression& size : *value.dims)
      infos.back().shape.push_back(size.is_constant() ? size.evaluate({}).value_or(kUnknownSize) : kUnknownSize);
  }
  return infos;
}

std::unique_ptr<RunnableProgram> load_program(const std::filesystem::path& path, int threads) {
  require_threads(threads);
  return std::make_unique<LoadedProgram>(load_artifact(path, {.threads = threads}));
}

}  // namespace runtime

Executable Executable::load(const std::filesystem::path& path, int threads) {
  std::unique_ptr<runtime::RunnableProgram> program = runtime::load_program(path, threads);
  std::vector<ValueInfo> inputs = runtime::value_infos(program->executable().inputs());
  std::vector<ValueInfo> outputs = runtime::value_infos(program->executable().outputs());
  return Executable(std::unique_ptr<State>(new State{std::move(inputs), std::move(outputs), std::move(program)}));
}

void Executable::save(const std::filesystem::path& path) const {
  runtime::save_artifact(state().program->executable(), path);
}

Executable::Executable(std::unique_ptr<State> state) : state_(std::move(state)) {}
Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&&) noexcept = default;
Executable::~Executable() = default;

std::vector<ValueInfo> Executable::inputs() const { return state().inputs; }
std::vector<ValueInfo> Executable::outputs() const { return state().outputs; }

Executable::State& Executable::state() const {
  if (!state_) throw Error(ErrorCode::InvalidArgument, "this executable was moved from");
  return *state_;
}

namespace {

// As many as models have as a rule: a run allocates none.
using Data = boost::container::small_vector<Datum, 16>;

// By position; None for what is not given.
Data in_order(const NamedTensors& tensors, const std::vector<ValueInfo>& infos, const char* what) {
  Data data(infos.size());
  size_t known = 0;
  for (size_t i = 0; i < infos.size(); ++i) {
    auto given = tensors.find(infos[i].name);
    if (given == tensors.end()) continue;
    data[i] = given->second;
    ++known;
  }
  if (known == tensors.size()) return data;
  std::vector<std::string> names;
  for (const ValueInfo& info : infos) names.push_back(info.name);
  auto unknown = std::ranges::find_if(
      tensors, [&](const auto& tensor) { return std::ranges::find(names, tensor.first) == names.end(); });
  throw unknown_name(what, unknown->first, names);
}

}  // namespace

NamedTensors Executable::run(const NamedTensors& inputs) const {
  State& from = state();
  Data results(from.outputs.size());
  from.program->run(in_order(inputs, from.inputs, "input"), results);
  NamedTensors outputs;
  for (size_t i = 0; i < results.size(); ++i) {
    const ValueInfo& info = from.outputs[i];
    if (!results[i].is_tensor()) {
      throw Error(ErrorCode::Unsupported, fmt::format("output '{}' is {}, not a tensor", info.name, info.type));
    }
    outputs.emplace(info.name, std::move(results[i].tensor()));
  }
  return outputs;
}

void Executable::run(const NamedTensors& inputs, const NamedTensors& outputs) const {
  State& from = state();
  Data results = in_order(outputs, from.outputs, "output");
  from.program->run(in_order(inputs, from.inputs, "input"), results);
}

const char* version() { return ANFORA_VERSION; }

}  // namespace anfora
