#include "driver/counted_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "analysis/flops.h"
#include "codegen/roofline.h"
#include "driver/tuning_cache.h"
#include "ops/registry.h"
#include "support/atomic_file.h"
#include "support/cache_folder.h"
#include "support/hash.h"
#include "support/parallel.h"

namespace anfora::driver {
namespace fs = std::filesystem;
namespace {

using runtime::OperandType;

constexpr int kRooflineFormat = 1;
constexpr const char* kRooflineKey = "anfora roofline";
// Other processes can only lower a measured rate, so the best of some measurements at different times is kept.
constexpr int kMeasurements = 5;

struct KeptRoofline {
  kernels::Roofline roofline;
  int measurements = 0;

  void add(const kernels::Roofline& measured) {
    ++measurements;
    if (roofline.readings.size() != measured.readings.size()) return void(roofline = measured);
    roofline.flops_per_second = std::max(roofline.flops_per_second, measured.flops_per_second);
    for (size_t i = 0; i < measured.readings.size(); ++i) {
      double& rate = roofline.readings[i].bytes_per_second;
      rate = std::max(rate, measured.readings[i].bytes_per_second);
    }
  }
};

// Constants of which there are packed copies are read as these; of several copies for several shapes, as the largest.
double packed_bytes(const kernels::KernelData& kernel) {
  std::map<size_t, size_t> by_number;
  for (const kernels::PackedConstant& packed : kernel.packed) {
    size_t& most = by_number[packed.number];
    most = std::max(most, packed.elements.bytes());
  }
  double bytes = 0;
  for (const auto& [number, most] : by_number) bytes += static_cast<double>(most);
  return bytes;
}

double count_bytes(const ir::Operator* op, const runtime::Kernel& kernel, std::span<const OperandType> inputs,
                   std::span<const OperandType> outputs) {
  if (op && op->fusion == ir::FusionKind::View) return 0;
  double written = 0, read = packed_bytes(kernel);
  for (const OperandType& output : outputs) written += output.bytes();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (kernel.prepared && i < kernel.inputs.size() && kernel.prepared->has_packed(i)) continue;
    const double bytes = inputs[i].bytes();
    read += op && op->takes_elements && i == 0 ? std::min(bytes, written) : bytes;
  }
  return read + written;
}

// Of what the inputs broadcast to.
double elements_of_group(std::span<const OperandType> inputs) {
  Shape space;  // from the last axis
  for (const OperandType& input : inputs) {
    space.resize(std::max(space.size(), input.shape.size()), 1);
    for (size_t i = 0; i < input.shape.size(); ++i) {
      space[i] = std::max(space[i], input.shape[input.shape.size() - 1 - i]);
    }
  }
  return static_cast<double>(element_count(space));
}

const ir::Type* type_of(ir::Context& context, const OperandType& operand) {
  if (operand.dtype == DType::Undefined) return context.none_type();
  std::vector<ir::Dim> dims;
  for (int64_t size : operand.shape) dims.push_back(context.dims().constant(size));
  return context.tensor_type(operand.dtype, dims);
}

std::optional<double> count_flops(ir::Context& context, const ir::Operator* op, const runtime::Kernel& kernel,
                                  std::span<const OperandType> inputs, std::span<const OperandType> outputs) {
  if (!op || !op->known || !op->signature.empty()) return std::nullopt;
  if (op->calls) return kernel.flops_per_element * elements_of_group(inputs);
  std::vector<const ir::Type*> input_types, output_types;
  for (const OperandType& input : inputs) input_types.push_back(type_of(context, input));
  for (const OperandType& output : outputs) output_types.push_back(type_of(context, output));
  return analysis::flops_of(context, *op, kernel.attributes, input_types, output_types);
}

}  // namespace

runtime::CountWork count_work() {
  const std::shared_ptr<ir::Context> context = ops::make_context();
  return [context](const runtime::Kernel& kernel, std::span<const OperandType> inputs,
                   std::span<const OperandType> outputs) -> runtime::Work {
    const ir::Operator* op = context->find_operator(kernel.op);
    return {count_flops(*context, op, kernel, inputs, outputs), count_bytes(op, kernel, inputs, outputs)};
  };
}

namespace {

// Nothing unless the file holds one for this purpose. What is damaged is measured again.
KeptRoofline read_roofline(const fs::path& path, const std::string& purpose) {
  KeptRoofline kept;
  std::ifstream file(path);
  const nlohmann::json json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object() || json.value(kRooflineKey, 0) != kRooflineFormat) return {};
  try {
    if (json.at("for") != purpose) return {};
    kept.measurements = json.at("measurements");
    kept.roofline.flops_per_second = json.at("flops_per_second");
    for (const auto& [bytes, rate] : json.at("bytes_per_second").get<std::vector<std::pair<double, double>>>()) {
      kept.roofline.readings.push_back({bytes, rate});
    }
  } catch (const nlohmann::json::exception&) {
    return {};
  }
  return kept.roofline.is_known() ? kept : KeptRoofline();
}

void write_roofline(const fs::path& path, const std::string& purpose, const KeptRoofline& kept) {
  nlohmann::ordered_json json = {
      {kRooflineKey, kRooflineFormat},
      {"for", purpose},
      {"measurements", kept.measurements},
      {"flops_per_second", kept.roofline.flops_per_second}};
  for (const auto& reading : kept.roofline.readings) {
    json["bytes_per_second"].push_back({reading.bytes, reading.bytes_per_second});
  }
  make_cache_folder(path.parent_path());
  AtomicFile file(path);
  file.write(json.dump() + "\n");
  file.commit();
}

}  // namespace

kernels::Roofline roofline_of_machine(int threads, const std::function<void(const std::string&)>& warn) {
  const std::string purpose = describe_generated_code(threads);
  const std::optional<fs::path> folder = cache_folder();
  const fs::path path =
      folder ? *folder / fmt::format("roofline-{:016x}.json", hash_bytes(purpose.data(), purpose.size())) : fs::path();
  KeptRoofline kept = folder ? read_roofline(path, purpose) : KeptRoofline();
  if (kept.measurements >= kMeasurements) return kept.roofline;
  codegen::MeasuredRoofline measured;
  with_threads(threads, [&] { measured = codegen::measure_roofline(); });
  if (!measured.all_ran_at_once && kept.measurements > 0) return kept.roofline;
  if (!measured.all_ran_at_once) {
    warn("warning: other processes kept threads from running together: the roofline is too low, and measured again next time");
    return measured.roofline;
  }
  kept.add(measured.roofline);
  if (!folder) return kept.roofline;
  try {
    write_roofline(path, purpose, kept);
  } catch (const std::exception& error) {
    warn(fmt::format("warning: the measured roofline is not kept: {}", error.what()));
  }
  return kept.roofline;
}

}  // namespace anfora::driver
