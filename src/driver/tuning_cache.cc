#include "driver/tuning_cache.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "anfora/error.h"
#include "driver/report_text.h"
#include "kernels/generated/isa.h"
#include "runtime/artifact.h"
#include "support/atomic_file.h"
#include "support/cache_folder.h"
#include "support/hash.h"
#include "support/parallel.h"

namespace anfora::driver {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kTuneNames[] = {"off", "fast", "full"};

constexpr int kTuningFormat = 1;
constexpr const char* kFormatKey = "anfora tuning";
// Of a file: a thousand models would not fill it. What comes first by name stays.
constexpr size_t kMostKinds = 20'000;

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

struct AttributeText {
  std::string operator()(int64_t number) const { return fmt::to_string(number); }
  std::string operator()(float number) const { return fmt::to_string(number); }
  std::string operator()(const std::string& text) const { return text; }
  std::string operator()(const Tensor& tensor) const {
    const bool has_bytes = tensor.dtype() != DType::String && tensor.raw();
    const std::string content = has_bytes ? to_string(content_hash(tensor.raw(), tensor.bytes())) : "";
    return fmt::format("{}[{}]{}", name(tensor.dtype()), fmt::join(tensor.shape(), "x"), content);
  }
  template <class T>
  std::string operator()(const std::vector<T>& list) const {
    std::vector<std::string> parts;
    for (const T& item : list) parts.push_back((*this)(item));
    return fmt::format("[{}]", fmt::join(parts, ","));
  }
};

std::string text_of(const kernels::InputDescription& input) {
  if (!input.present) return "none";
  std::vector<std::string> dims;
  if (input.shape) {
    for (int64_t dim : *input.shape) dims.push_back(dim < 0 ? "?" : fmt::to_string(dim));
  }
  const std::string shape = input.shape ? fmt::format("{}", fmt::join(dims, "x")) : "*";
  return fmt::format("{}{}[{}]", input.constant.defined() ? "const " : "", name(input.dtype), shape);
}

// Throws what nlohmann::json throws, and Error.
std::pair<std::string, TunedKernel> parse_line(const std::string& line) {
  const nlohmann::json json = nlohmann::json::parse(line);
  TunedKernel kernel{.taken = json.at("taken"),
                     .expected = json.at("expected"),
                     .among = json.at("among"),
                     .milliseconds = json.at("milliseconds"),
                     .tune = tune_named(json.at("tune").get<std::string>())};
  return {json.at("kernel"), std::move(kernel)};
}

}  // namespace

std::string describe_generated_code(int threads) {
  int count = 0;
  with_threads(threads, [&] { count = thread_count(); });
  const auto generated = kernels::generated::describe(kernels::generated::best_isa()).name;
  return fmt::format("generated {}, {}, {}", generated, processor(), counted(static_cast<size_t>(count), "thread"));
}

std::string_view name_of(Tune tune) { return kTuneNames[static_cast<size_t>(tune)]; }

Tune tune_named(std::string_view name) {
  for (Tune tune : {Tune::Off, Tune::Fast, Tune::Full}) {
    if (name_of(tune) == name) return tune;
  }
  throw Error(ErrorCode::InvalidArgument, fmt::format("'{}' is no way to tune", name)).with_hint("off, fast or full");
}

std::string kind_of(const kernels::KernelData& data) {
  std::vector<std::string> inputs;
  for (const kernels::InputDescription& input : data.inputs) inputs.push_back(text_of(input));
  std::string kind = fmt::format("{}({})", data.op, fmt::join(inputs, ", "));
  for (const auto& [name, value] : data.attributes) kind += fmt::format(" {}={}", name, std::visit(AttributeText(), value));
  return kind;
}

TuningCache::TuningCache(int threads) : TuningCache(cache_folder(), fmt::format("{}, {}", runtime::artifact_origin(), describe_generated_code(threads))) {}

TuningCache::TuningCache(std::optional<fs::path> folder, std::string purpose) : purpose_(std::move(purpose)) {
  if (!folder) return;
  path_ = *folder / fmt::format("tuning-{:016x}.json", hash_bytes(purpose_.data(), purpose_.size()));
}

TunedKernels TuningCache::read(const std::function<void(const std::string&)>& warn) const {
  TunedKernels kernels;
  std::ifstream file(path_);
  std::string line;
  if (path_.empty() || !std::getline(file, line)) return kernels;
  try {
    const nlohmann::json header = nlohmann::json::parse(line);
    if (header.at(kFormatKey) != kTuningFormat || header.at("for") != purpose_) return kernels;
    while (std::getline(file, line)) kernels.insert(parse_line(line));
  } catch (const std::exception& error) {
    kernels.clear();
    warn(fmt::format("warning: {} is damaged, and counts as empty: {}", path_.string(), error.what()));
  }
  return kernels;
}

void TuningCache::add(const TunedKernels& kernels, const std::function<void(const std::string&)>& warn) const {
  if (path_.empty() || kernels.empty()) return;
  TunedKernels all = kernels;
  all.merge(read([](const std::string&) {}));
  try {
    make_cache_folder(path_.parent_path());
    AtomicFile file(path_);
    file.write(nlohmann::json({{kFormatKey, kTuningFormat}, {"for", purpose_}}).dump() + "\n");
    size_t count = 0;
    for (const auto& [kind, kernel] : all) {
      if (++count > kMostKinds) break;
      const nlohmann::ordered_json json = {{"kernel", kind},
                                           {"taken", kernel.taken},
                                           {"expected", kernel.expected},
                                           {"among", kernel.among},
                                           {"milliseconds", kernel.milliseconds},
                                           {"tune", name_of(kernel.tune)}};
      file.write(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    }
    file.commit();
  } catch (const std::exception& error) {
    warn(fmt::format("warning: what was measured is not kept: {}", error.what()));
  }
}

}  // namespace anfora::driver
