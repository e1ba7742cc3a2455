// Writes both sides of rules as ONNX models, for what runs them to compare (tests/frontend/onnxruntime_accuracy.py).
//
// usage: rule_pairs FOLDER [--only TEXT]
// For each equation over single precision of which instances can be made: NAME.I.before.onnx and NAME.I.after.onnx. Rules that
// the facts about ONNX Runtime switch off make none.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "anfora/error.h"
#include "frontend/onnx/export.h"
#include "frontend/onnx/implemented.h"
#include "ir/clone.h"
#include "ops/registry.h"
#include "passes/pass.h"
#include "rules/instance.h"
#include "support/hash.h"

namespace anfora::rules {
namespace {

namespace fs = std::filesystem;
using namespace ir;
using rewrite::Equation;

constexpr int kPairs = 3;  // of each rule
constexpr int kAttempts = 400;

bool is_single(const Module& module) {
  auto parameters = module.main()->parameters();
  return !parameters.empty() && std::ranges::all_of(parameters, [](const Parameter* p) {
    return p->type() && p->type()->is_tensor() && p->type()->dtype() == DType::F32 && p->type()->static_shape();
  });
}

// Whether the rule, alone, changes the module.
bool rewrite_by(const Equation& equation, Module& module, const rewrite::HasOperator& has_operator) {
  rewrite::RuleSet rules(module.context());
  rules.add(equation);
  int64_t fuel = 1;
  rewrite::Remarks remarks;
  analysis::Inference inference(module);
  inference.run();
  return rewrite::apply_rules(rules, {.fuel = &fuel, .has_operator = has_operator, .is_accurate = onnx::is_accurate},
                              inference, remarks, "rules") > 0;
}

int write_pairs(const Equation& equation, Context& context, const fs::path& folder) {
  const uint64_t name = hash_bytes(equation.name.data(), equation.name.size());
  int written = 0;
  for (int attempt = 0; attempt < kAttempts && written < kPairs; ++attempt) {
    Draw draw(hash_combine(name, static_cast<uint64_t>(attempt)));
    auto instance = make_instance(equation, context, {}, draw);
    if (!instance || !is_single(*instance->module)) continue;
    instance->module->output_names() = {"y"};
    const onnx::ExportOptions options{.opset = 24};
    std::unique_ptr<Module> after = clone(*instance->module);
    try {
      if (!rewrite_by(equation, *after, onnx::expressible(*after, options))) continue;
      const std::string stem = folder / fmt::format("{}.{}", equation.name, written);
      onnx::export_onnx(*instance->module, stem + ".before.onnx", options);
      onnx::export_onnx(*after, stem + ".after.onnx", options);
      ++written;
    } catch (const Error&) {
      continue;  // no ONNX
    }
  }
  return written;
}

int run(int argc, char** argv) {
  if (argc < 2) throw Error(ErrorCode::InvalidArgument, "usage: rule_pairs FOLDER [--only TEXT]");
  const fs::path folder = argv[1];
  const std::string only = argc > 3 && std::string_view(argv[2]) == "--only" ? argv[3] : "";
  fs::create_directories(folder);
  auto context = ops::make_context();
  rewrite::RuleSet rules(*context);
  rules.add(*passes::standard_rules());
  rules.add(*passes::rules_of_passes());
  int total = 0;
  for (const Equation& equation : rules.equations()) {
    if (equation.on_floats != rewrite::Promise::Real || equation.name.find(only) == std::string::npos) continue;
    total += write_pairs(equation, *context, folder);
  }
  fmt::print("{} pairs\n", total);
  return total > 0 ? 0 : 1;
}

}  // namespace
}  // namespace anfora::rules

int main(int argc, char** argv) {
  try {
    return anfora::rules::run(argc, argv);
  } catch (const anfora::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
