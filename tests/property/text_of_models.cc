// usage: text_of_models (MODEL | FOLDER)…
//
// Writes each ONNX model as text, before and after inference, reads it back in a context that knows nothing of the
// model, and writes it again: the bytes must be the same, and inference must find the same types for what was read.
// Folders are searched. A model that the importer or inference refuses is not counted; their tests are elsewhere.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "analysis/infer.h"
#include "anfora/error.h"
#include "frontend/onnx/import.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ops/registry.h"

namespace {

using namespace anfora;

std::vector<std::filesystem::path> find_models(int count, char** arguments) {
  std::vector<std::filesystem::path> models;
  for (int i = 0; i < count; ++i) {
    if (!std::filesystem::is_directory(arguments[i])) {
      models.emplace_back(arguments[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(arguments[i])) {
      if (entry.is_regular_file() && entry.path().extension() == ".onnx") models.push_back(entry.path());
    }
  }
  std::ranges::sort(models);
  return models;
}

struct Text {
  std::string text;
  ir::Sidecar constants;
};

Text write(const ir::Module& module) {
  Text result;
  result.text = ir::print(module, {.sidecar = &result.constants});
  return result;
}

std::string first_difference(std::string_view expected, std::string_view found) {
  auto line = [](std::string_view text, size_t at) {
    size_t start = text.rfind('\n', at) + 1;  // npos + 1 = 0
    return std::string(text.substr(start, std::min<size_t>(text.find('\n', start) - start, 1000)));
  };
  size_t at = static_cast<size_t>(std::ranges::mismatch(expected, found).in1 - expected.begin());
  size_t before = at > 0 ? at - 1 : 0;
  return "\n- " + line(expected, before) + "\n+ " + line(found, before);
}

// Symbols that inference makes up are named after the id of their node, "_17_0", and a node with a name does not keep
// its id in the text: all such symbols become "_".
std::string without_made_symbols(const std::string& text) {
  static const std::regex kMade(R"(\b_\d+_\d+\b)");
  return std::regex_replace(text, kMade, "_");
}

// Empty when the text reads back as it was written.
std::string check(const Text& written, const Text* typed) {
  auto context = ops::make_context();
  auto module = ir::parse(*context, written.text, {.sidecar = &written.constants});
  std::string again = write(*module).text;
  if (again != written.text) return "prints differently after parsing:" + first_difference(written.text, again);
  if (!typed) return {};
  analysis::infer_types(*module);
  std::string expected = without_made_symbols(typed->text);
  again = without_made_symbols(write(*module).text);
  if (again != expected) return "is inferred differently after parsing:" + first_difference(expected, again);
  return {};
}

enum class Outcome { Same, Different, Refused };

Outcome round_trip(const std::filesystem::path& path) {
  auto context = ops::make_context();
  std::unique_ptr<ir::Module> module;
  Text imported, typed;
  bool is_typed = false;
  try {
    module = onnx::import_onnx(*context, path);
    imported = write(*module);
    analysis::infer_types(*module);
    is_typed = true;
    typed = write(*module);
  } catch (const Error&) {
    if (!module) return Outcome::Refused;
  }
  std::string problem;
  try {
    problem = check(imported, is_typed ? &typed : nullptr);
    if (problem.empty() && is_typed) problem = check(typed, &typed);
  } catch (const Error& error) {
    problem = error.what();
  }
  if (problem.empty()) return Outcome::Same;
  std::printf("%s: %s\n", path.c_str(), problem.c_str());
  return Outcome::Different;
}

}  // namespace

int main(int argc, char** argv) {
  size_t counts[3] = {};
  for (const auto& path : find_models(argc - 1, argv + 1)) ++counts[static_cast<size_t>(round_trip(path))];
  std::printf("%zu the same, %zu different, %zu refused\n", counts[0], counts[1], counts[2]);
  return counts[0] == 0 || counts[1] > 0;
}
