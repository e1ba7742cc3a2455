// The examples of docs/ir.md are modules: they parse, they are valid, and they round-trip.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "analysis/infer.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "ops/registry.h"

namespace anfora {
namespace {

std::vector<std::string> examples_of(const std::string& document) {
  constexpr std::string_view kOpen = "```ir\n", kClose = "```\n";
  std::vector<std::string> examples;
  for (size_t at = 0; (at = document.find(kOpen, at)) != std::string::npos;) {
    at += kOpen.size();
    examples.push_back(document.substr(at, document.find(kClose, at) - at));
  }
  return examples;
}

TEST(TextDocs, ExamplesAreModules) {
  std::ifstream file(ANFORA_IR_DOCUMENT);
  std::vector<std::string> examples = examples_of({std::istreambuf_iterator<char>(file), {}});
  ASSERT_GE(examples.size(), 3u);
  for (const std::string& example : examples) {
    SCOPED_TRACE(example);
    auto context = ops::make_context();
    auto module = ir::parse(*context, example);
    for (const ir::Violation& violation : ir::verify(*module)) ADD_FAILURE() << to_string(violation);
    std::string text = ir::print(*module);
    EXPECT_EQ(ir::print(*ir::parse(*context, text)), text);
    analysis::infer_types(*module);
  }
}

TEST(TextDocs, TheFirstExampleIsWhatThePrinterWrites) {
  std::ifstream file(ANFORA_IR_DOCUMENT);
  std::string example = examples_of({std::istreambuf_iterator<char>(file), {}})[0];
  auto context = ops::make_context();
  auto module = ir::parse(*context, example);
  size_t comment = example.find("   # %1 is");
  example.erase(comment, example.find('\n', comment) - comment);
  EXPECT_EQ(ir::print(*module), example);
}

}  // namespace
}  // namespace anfora
