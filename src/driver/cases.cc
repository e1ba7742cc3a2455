#include "driver/cases.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "anfora/cancellation.h"
#include "anfora/error.h"
#include "driver/compare.h"
#include "driver/inputs.h"
#include "driver/model.h"
#include "frontend/onnx/import.h"
#include "support/mapped_file.h"

namespace anfora::driver {
namespace {

// What ONNX's own runner uses where a case says nothing.
constexpr Tolerance kCaseTolerance{1e-3, 1e-7};

Tolerance read_tolerance(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return kCaseTolerance;
  auto json = nlohmann::json::parse(MappedFile::open(file)->text());
  return {json.value("rtol", kCaseTolerance.relative), json.value("atol", kCaseTolerance.absolute)};
}

std::vector<std::filesystem::path> data_sets(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> sets;
  for (int k = 0; std::filesystem::exists(folder / fmt::format("test_data_set_{}", k)); ++k) {
    sets.push_back(folder / fmt::format("test_data_set_{}", k));
  }
  return sets;
}

CaseResult run(const std::filesystem::path& folder, const CompileOptions& options) {
  Tolerance tolerance = read_tolerance(folder / "case.json");
  LoadedModel model = load_model(folder / "model.onnx");
  std::vector<const ir::Type*> types = onnx::declared_output_types(*model.context, folder / "model.onnx");
  runtime::Executable executable = compile_model(model, options);
  std::vector<std::filesystem::path> sets = data_sets(folder);
  if (sets.empty()) return {false, "there is no test_data_set_0"};
  for (const auto& set : sets) {
    runtime::NamedData inputs;
    size_t k = 0;
    for (const ir::Parameter* p : model.module->main()->parameters()) {
      std::filesystem::path file = set / fmt::format("input_{}.pb", k++);
      if (std::filesystem::exists(file)) inputs.emplace_back(std::string(p->name()), read_pb(file, p->type()));
    }
    std::vector<Datum> outputs = executable.run(std::move(inputs));
    for (size_t i = 0; i < outputs.size(); ++i) {
      std::filesystem::path file = set / fmt::format("output_{}.pb", i);
      if (!std::filesystem::exists(file)) continue;
      Datum want = read_pb(file, types[i]);
      Comparison comparison = compare(outputs[i], want, tolerance);
      if (!comparison.difference.empty()) {
        return {false, fmt::format("output '{}': {}", model.module->output_names()[i], comparison.difference)};
      }
    }
  }
  return {true, ""};
}

}  // namespace

CaseResult run_case(const std::filesystem::path& folder, const CompileOptions& options) {
  try {
    return run(folder, options);
  } catch (const Cancelled&) {
    throw;
  } catch (const std::exception& error) {
    return {false, error.what()};
  }
}

}  // namespace anfora::driver
