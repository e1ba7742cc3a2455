// Whole models: ONNX's conformance cases allocate nothing in a run into given outputs, but for those that a list names with a reason.
//
//     case_allocations SUITE LIST [PART OF A NAME]
//
// A line of the list is "PATTERN  REASON", where the pattern ends in "*" or is a case's name. A case that allocates and is not listed is a
// failure, and so is a pattern that no case which allocates needs. Names, counts and callers are printed.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "count.h"
#include "driver/inputs.h"
#include "driver/model.h"

namespace anfora {
namespace {

constexpr int kWarmUp = 2, kCounted = 3;

struct Exemption {
  std::string pattern;
  bool is_needed = false;

  bool covers(std::string_view name) const {
    const std::string_view text = pattern;
    return text.ends_with('*') ? name.starts_with(text.substr(0, text.size() - 1)) : name == text;
  }
};

std::vector<Exemption> read_list(const std::filesystem::path& file) {
  std::vector<Exemption> exemptions;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line[0] != '#') exemptions.push_back({line.substr(0, line.find(' '))});
  }
  return exemptions;
}

size_t allocations_of(const std::filesystem::path& folder) {
  driver::LoadedModel model = driver::load_model(folder / "model.onnx");
  driver::CompileOptions options{.optimize = false};
  options.threads = 1;
  const runtime::Executable executable = driver::compile_model(model, options);
  std::vector<Datum> inputs;
  for (const ir::Parameter* p : model.module->main()->parameters()) {
    const auto file = folder / "test_data_set_0" / fmt::format("input_{}.pb", inputs.size());
    inputs.push_back(std::filesystem::exists(file) ? driver::read_pb(file, p->type()) : Datum{});
  }
  std::vector<Datum> outputs = executable.run(inputs);
  for (Datum& output : outputs) {
    if (output.is_tensor()) output = Tensor::zeros(output.tensor().dtype(), output.tensor().shape());
  }
  for (int run = 0; run < kWarmUp; ++run) executable.run(inputs, outputs);
  return count_allocations([&] {
    for (int run = 0; run < kCounted; ++run) executable.run(inputs, outputs);
  });
}

int check(const std::filesystem::path& suite, const std::filesystem::path& list, std::string_view part) {
  std::vector<Exemption> exemptions = read_list(list);
  std::vector<std::filesystem::path> cases;
  for (const auto& entry : std::filesystem::directory_iterator(suite)) {
    if (std::filesystem::exists(entry.path() / "model.onnx")) cases.push_back(entry.path());
  }
  std::ranges::sort(cases);
  int free = 0, exempt = 0, failures = 0;
  for (const auto& folder : cases) {
    const std::string name = folder.filename();
    if (name.find(part) == name.npos) continue;
    auto exemption = std::ranges::find_if(exemptions, [&](const Exemption& e) { return e.covers(name); });
    if (exemption != exemptions.end()) {
      if (exemption->is_needed || allocations_of(folder) > 0) exemption->is_needed = true;
      ++exempt;
    } else if (const size_t count = allocations_of(folder); count > 0) {
      fmt::print("{} allocates {} times in {} runs\n", name, count, kCounted);
      ++failures;
    } else {
      ++free;
    }
  }
  for (const Exemption& exemption : exemptions) {
    if (exemption.is_needed || !part.empty()) continue;
    fmt::print("no case needs the line of {}\n", exemption.pattern);
    ++failures;
  }
  fmt::print("{} cases allocate nothing, {} are exempt, {} failures\n", free, exempt, failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace anfora

int main(int argc, char** argv) {
  if (argc < 3) return fmt::print("usage: case_allocations SUITE LIST [PART OF A NAME]\n"), 2;
  try {
    return anfora::check(argv[1], argv[2], argc > 3 ? argv[3] : "");
  } catch (const std::exception& error) {
    fmt::print("case_allocations: {}\n", error.what());
    return 1;
  }
}
