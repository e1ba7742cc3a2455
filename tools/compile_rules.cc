// compile_rules OUTPUT FILE…: writes the rules of the files, in this order, as constant data (rewrite/compiled_rules.h). What is wrong with a
// rule is an error of the build.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "anfora/error.h"
#include "ops/registry.h"
#include "rewrite/rule_set.h"

namespace anfora {
namespace {

constexpr size_t kNumbersInLine = 32;

void write_array(std::ofstream& out, std::string_view type, std::string_view name, const auto& numbers) {
  out << fmt::format("constexpr {} {}[] = {{", type, name);
  size_t i = 0;
  for (const auto n : numbers) out << (i++ % kNumbersInLine == 0 ? "\n" : "") << +n << ',';
  out << "};\n";
}

void compile_rules(const std::string& output, std::span<char* const> files) {
  const auto context = ops::make_context();
  rewrite::RuleSet rules(*context);
  for (const std::filesystem::path file : files) {
    std::ifstream in(file);
    if (!in) throw Error(ErrorCode::NotFound, fmt::format("cannot read {}", file.string()));
    rules.read(std::string(std::istreambuf_iterator<char>(in), {}), fmt::format("rules/{}", file.filename().string()));
  }
  const auto compiled = rules.compiled();
  std::ofstream out(output);
  out << "// Generated from rules/*.rules by tools/compile_rules.cc.\n"
         "#include \"passes/pass.h\"\n\n"
         "namespace anfora::passes {\nnamespace {\n\n";
  write_array(out, "signed char", "kBytes", compiled.bytes);
  write_array(out, "uint32_t", "kTree", compiled.tree);
  out << "\n}  // namespace\n\n"
         "rewrite::RuleData compiled_rule_data() {\n"
         "  return {{reinterpret_cast<const char*>(kBytes), sizeof(kBytes)}, kTree};\n"
         "}\n\n}  // namespace anfora::passes\n";
  if (!out.flush()) throw Error(ErrorCode::Io, fmt::format("cannot write {}", output));
}

}  // namespace
}  // namespace anfora

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  try {
    anfora::compile_rules(argv[1], {argv + 2, argv + argc});
    return 0;
  } catch (const anfora::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
