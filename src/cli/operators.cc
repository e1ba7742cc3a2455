// `anfora operators`: the registry of operators as a list, as JSON, or as the document docs/ops.md.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/text.h"
#include "dialects/microsoft/library.h"
#include "dialects/onnx/library.h"
#include "kernels/onednn/onednn_kernels.h"
#include "ops/gradients.h"
#include "ops/registry.h"

namespace anfora::cli {
namespace {

struct OperatorsOptions {
  bool json = false;
  bool markdown = false;
};

using ir::Formal;
using ir::Operator;
using Kind = ir::AttributeDeclaration::Kind;

std::string joined(const std::vector<std::string>& parts, const char* separator = ", ") {
  return fmt::format("{}", fmt::join(parts, separator));
}

// "?" after an optional name, "…" after a variadic one.
std::vector<std::string> formals(const std::vector<Formal>& declared) {
  std::vector<std::string> result;
  for (const Formal& formal : declared) {
    const char* mark = formal.arity == Formal::Arity::Optional   ? "?"
                       : formal.arity == Formal::Arity::Variadic ? "…"
                                                                 : "";
    result.push_back(fmt::format("{}{}: {}", formal.name, mark, formal.type));
  }
  return result;
}

const char* kind_name(Kind kind) {
  constexpr const char* kNames[] = {"int",    "float",   "string",  "tensor", "ints",
                                    "floats", "strings", "tensors", "type",   "any"};
  return kNames[static_cast<size_t>(kind)];
}

std::string value_text(const AttributeValue& value) {
  if (auto* integer = std::get_if<int64_t>(&value)) return std::to_string(*integer);
  if (auto* number = std::get_if<float>(&value)) return fmt::format("{}", *number);
  if (auto* text = std::get_if<std::string>(&value)) return fmt::format("\"{}\"", *text);
  if (auto* integers = std::get_if<std::vector<int64_t>>(&value))
    return fmt::format("[{}]", fmt::join(*integers, ", "));
  if (auto* numbers = std::get_if<std::vector<float>>(&value)) return fmt::format("[{}]", fmt::join(*numbers, ", "));
  return "…";
}

std::vector<std::string> attributes(const Operator& op) {
  std::vector<std::string> result;
  for (const auto& attribute : op.attributes) {
    std::string text = fmt::format("{}{}: {}", attribute.name, attribute.required || attribute.otherwise ? "" : "?",
                                   kind_name(attribute.kind));
    if (attribute.otherwise) text += " = " + value_text(*attribute.otherwise);
    result.push_back(text);
  }
  return result;
}

// Element types by the names of the sets that they consist of, the largest first.
std::string dtype_text(std::vector<DType> dtypes) {
  if (dtypes.empty()) return "any type";
  const std::pair<const char*, const std::vector<DType>&> sets[] = {{"all", ops::kAllDTypes},
                                                                    {"plain", ops::kPlainDTypes},
                                                                    {"numbers", ops::kNumbers},
                                                                    {"signed numbers", ops::kSignedNumbers},
                                                                    {"integers", ops::kIntegers},
                                                                    {"floats", ops::kFloats},
                                                                    {"float8", ops::kFloat8s},
                                                                    {"signed integers", ops::kSignedIntegers},
                                                                    {"unsigned integers", ops::kUnsignedIntegers}};
  std::vector<std::string> parts;
  for (const auto& [set_name, members] : sets) {
    if (!std::ranges::all_of(members, [&](DType d) { return std::ranges::count(dtypes, d) > 0; })) continue;
    parts.push_back(set_name);
    std::erase_if(dtypes, [&](DType d) { return std::ranges::count(members, d) > 0; });
  }
  for (DType dtype : dtypes) parts.emplace_back(name(dtype));
  return joined(parts);
}

std::vector<std::string> kernels_of(const Operator& op) {
  std::vector<std::string> result;
  for (const kernels::PreparedRegistry* registry : kernels::prepared_kernels()) {
    for (std::string_view implementation : registry->implementations(op.qualified)) result.emplace_back(implementation);
  }
  if (ops::reference_kernel(op)) result.push_back("reference");
  return result;
}

const char* effect_name(ir::Effect effect) {
  return effect == ir::Effect::Random ? "random" : effect == ir::Effect::State ? "state" : "pure";
}

const char* fusion_name(ir::FusionKind kind) {
  constexpr const char* kNames[] = {"opaque", "elementwise", "broadcast", "injective", "view", "reduction", "anchor"};
  return kNames[static_cast<size_t>(kind)];
}

// What the declaration says besides (ir/operator.h); what follows from the kind of fusion is left out.
std::vector<std::string> facts_of(const Operator& op) {
  std::vector<std::string> facts;
  for (const auto& [holds, fact] : {std::pair{op.commutative, "commutative"},
                                    {op.associative, "associative"},
                                    {op.rising, "rising"},
                                    {op.at_least_operand, "at least its operand"},
                                    {op.at_most_operand, "at most its operand"},
                                    {op.keeps_sign, "keeps the sign"},
                                    {op.mirror == op.name, "odd"},
                                    {op.scales, "scales"},
                                    {op.keeps_nan, "NaN of NaN"},
                                    {op.whole == ir::Whole::Always, "whole"},
                                    {op.whole == ir::Whole::OfWhole, "whole of whole"},
                                    {op.total, "finite of finite"},
                                    {op.takes_elements, "takes elements"},
                                    {op.calls, "calls its function"},
                                    {op.range != nullptr, "has a range"},
                                    {op.fails == ir::Fails::Never, "never fails"}}) {
    if (holds) facts.emplace_back(fact);
  }
  return facts;
}

std::string anchor(std::string_view domain) { return domain.empty() ? "ai.onnx" : std::string(domain); }

// By domain, the main domain first; within one by name.
std::map<std::string, std::vector<const Operator*>> by_domain(const ir::Context& context) {
  std::map<std::string, std::vector<const Operator*>> result;
  for (const Operator* op : context.operators()) {
    if (op->primitive == ir::Primitive::Operation) result[op->domain].push_back(op);
  }
  return result;
}

constexpr const char* kOperatorsIntroduction = R"(# Operators

Written by `anfora operators --markdown` from the declarations in `src/ops`; a test compares the two.

Names, attributes and semantics are those of the newest ONNX operator set. *Since* is the version of the operator set
that last changed the operator; nodes of older versions are upgraded when a model is imported. A name with `?` may be
absent, one with `…` stands for any number. The first kernel that applies to the types and shapes at hand runs; the
reference kernel always does. *Facts* are what rules and analyses ask (`src/ir/operator.h`). *Parts* and *meaning* are functions that run, or
are differentiated, in the operator's place.

Sets of element types: *floats* f16 bf16 f32 f64; *signed integers* i8 to i64, *unsigned integers* u8 to u64,
*integers* both; *signed numbers* floats and signed integers, *numbers* floats and integers; *plain* numbers, complex,
bool and string; *float8* the four 8-bit floats; *all* every element type.
)";

// Without line breaks and indentation.
std::string without_breaks(std::string_view text) {
  std::string line;
  for (char c : text) {
    const bool is_space = c == ' ' || c == '\n';
    if (!is_space) line += c;
    else if (!line.empty() && line.back() != ' ') line += ' ';
  }
  return line;
}

void print_operators_markdown(ir::Context& context) {
  const ir::Library library(context, microsoft::library_files());
  const ir::Library parts(context, onnx_parts::library_files());
  const ir::Library gradients(context, ops::gradient_files(), ir::Library::Of::Gradients);
  fmt::print("{}", kOperatorsIntroduction);
  for (const auto& [domain, operators] : by_domain(context)) {
    fmt::print("\n## {} ({} operators)\n", anchor(domain), operators.size());
    for (const Operator* op : operators) {
      fmt::print("\n### {}\n\n{}\n\n", op->name, op->doc);
      fmt::print("- since {}, {}, {}; kernels: {}\n", op->since, effect_name(op->effect), fusion_name(op->fusion),
                 kernels_of(*op).empty() ? "none" : joined(kernels_of(*op)));
      auto line = [](const char* what, const std::vector<std::string>& parts) {
        if (!parts.empty()) fmt::print("- {}: `{}`\n", what, joined(parts, "`, `"));
      };
      line("inputs", formals(op->inputs));
      line("outputs", formals(op->outputs));
      line("attributes", attributes(*op));
      std::vector<std::string> variables;
      for (const ir::TypeVariable& variable : op->variables) {
        variables.push_back(fmt::format("`{}` {}", variable.name, dtype_text(variable.dtypes)));
      }
      if (!variables.empty()) fmt::print("- types: {}\n", joined(variables, "; "));
      if (const auto facts = facts_of(*op); !facts.empty()) fmt::print("- facts: {}\n", joined(facts));
      if (!op->meaning.empty()) {
        fmt::print("- meaning: `{}`\n", without_breaks(op->meaning));
      } else if (const ir::Graph* function = library.find(*op)) {
        const std::string_view file = function->return_node()->location()->file;
        fmt::print("- meaning: `@{}` in [{}](../src/dialects/microsoft/{})\n", function->name(), file, file);
      }
      if (const ir::Graph* function = parts.find(*op)) {
        const std::string_view file = function->return_node()->location()->file;
        fmt::print("- parts: `@{}` in [{}](../src/dialects/onnx/{})\n", function->name(), file, file);
      }
      if (const ir::Graph* function = gradients.find(*op)) {
        const std::string_view file = function->return_node()->location()->file;
        const char* how = gradients.meaning(*op) ? ", of its meaning" : "";
        fmt::print("- gradient: `@{}` in [{}](../src/ops/gradients/{}){}\n", function->name(), file, file, how);
      }
    }
  }
}

void print_operators_json(const ir::Context& context) {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& [domain, operators] : by_domain(context)) {
    for (const Operator* op : operators) {
      nlohmann::json types = nlohmann::json::object();
      for (const ir::TypeVariable& variable : op->variables) {
        types[variable.name] = nlohmann::json::array();
        for (DType dtype : variable.dtypes) types[variable.name].push_back(name(dtype));
      }
      all.push_back({{"domain", op->domain},
                     {"name", op->name},
                     {"since", op->since},
                     {"doc", op->doc},
                     {"inputs", formals(op->inputs)},
                     {"outputs", formals(op->outputs)},
                     {"attributes", attributes(*op)},
                     {"types", types},
                     {"effect", effect_name(op->effect)},
                     {"fusion", fusion_name(op->fusion)},
                     {"facts", facts_of(*op)},
                     {"kernels", kernels_of(*op)}});
    }
  }
  fmt::print("{}\n", all.dump(2));
}

void print_operators_list(const ir::Context& context) {
  for (const auto& [domain, operators] : by_domain(context)) {
    fmt::print("{}{}{}, {} operators\n", bold(), anchor(domain), plain(), operators.size());
    for (const Operator* op : operators) {
      const auto kernels = kernels_of(*op);
      fmt::print("  {:<28} {:>3}  {}\n", op->name, op->since,
                 kernels.empty() ? red() + "no kernel" + plain() : joined(kernels));
    }
  }
}

int run_operators(const OperatorsOptions& options) {
  const std::unique_ptr<ir::Context> context = ops::make_context();
  if (options.json) {
    print_operators_json(*context);
  } else if (options.markdown) {
    print_operators_markdown(*context);
  } else {
    print_operators_list(*context);
  }
  return kSuccess;
}

}  // namespace

Action add_operators(CLI::App& app) {
  auto options = std::make_shared<OperatorsOptions>();
  CLI::App* command = app.add_subcommand("operators", "All operators: since which operator set, and their kernels");
  auto* json = command->add_flag("--json", options->json, "print JSON");
  command->add_flag("--markdown", options->markdown, "the document docs/ops.md")->excludes(json);
  command->footer("Example:\n  anfora operators");
  return [options] { return run_operators(*options); };
}

}  // namespace anfora::cli
