// `anfora rules`: the rules of simplification and the expansions as a list, as JSON, or as the document docs/rules.md.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "anfora/error.h"
#include "cli/command.h"
#include "cli/rules.h"
#include "cli/text.h"
#include "driver/rules.h"
#include "ops/registry.h"
#include "passes/pass.h"
#include "rewrite/expression.h"
#include "support/mapped_file.h"

namespace anfora::cli {
namespace {

using rewrite::Equation;
using rewrite::RuleSet;

struct RulesOptions {
  std::string name, checks, fired;
  std::vector<std::string> files;
  bool json = false, markdown = false;
};

// "exact"; "real/exact" where it promises more of what is no float.
std::string promise_text(const Equation& equation) {
  std::string text(to_string(equation.on_floats));
  if (equation.on_others != equation.on_floats) text += fmt::format("/{}", to_string(equation.on_others));
  if (equation.must_pay) text += ", cheaper";
  if (equation.is_accurate) text += ", accurate";
  if (equation.moves_kinks) text += ", kinks";
  return equation.takes_numbers ? text + ", numbers" : text;
}

// In the order of their files.
std::vector<std::pair<std::string, std::vector<const Equation*>>> by_theme(const RuleSet& rules) {
  std::vector<std::pair<std::string, std::vector<const Equation*>>> themes;
  for (const Equation& equation : rules.equations()) {
    if (themes.empty() || themes.back().first != equation.theme) themes.push_back({equation.theme, {}});
    themes.back().second.push_back(&equation);
  }
  return themes;
}

// A function may be a rule of several operators: once each.
std::vector<const rewrite::Rule*> functions(const RuleSet& rules) {
  std::vector<const rewrite::Rule*> distinct;
  for (const rewrite::Rule* rule : rules.functions()) {
    if (!std::ranges::count(distinct, rule->name, &rewrite::Rule::name)) distinct.push_back(rule);
  }
  return distinct;
}

nlohmann::json to_json(const Equation& equation) {
  return {{"name", equation.name},
          {"theme", equation.theme},
          {"place", equation.place},
          {"equation", equation.doc},
          {"rule", equation.text},
          {"guard", equation.guard_text},
          {"promise", {{"floats", to_string(equation.on_floats)}, {"others", to_string(equation.on_others)}}},
          {"cheaper", equation.must_pay},
          {"accurate", equation.is_accurate},
          {"kinks", equation.moves_kinks},
          {"numbers", equation.takes_numbers},
          {"ordered", equation.order}};
}

void print_rules_json(const RuleSet& rules) {
  nlohmann::json json = {{"rules", nlohmann::json::array()}};
  for (const Equation& equation : rules.equations()) json["rules"].push_back(to_json(equation));
  for (const rewrite::Rule* rule : functions(rules)) {
    json["functions"].push_back(
        {{"name", rule->name}, {"equation", rule->equation}, {"promise", to_string(rule->promise)}});
  }
  fmt::print("{}\n", json.dump(2));
}

void print_one(const Equation& equation) {
  fmt::print("{}{}{} ({})\n  {}\n\n  {}\n\n", bold(), equation.name, plain(), equation.place, equation.doc,
             equation.text);
  fmt::print("  promise  {}\n", promise_text(equation));
  if (!equation.guard_text.empty()) fmt::print("  guard    {}\n", equation.guard_text);
  if (!equation.order.empty()) fmt::print("  ends     {}\n", equation.order);
}

void print_rules_list(const RuleSet& rules) {
  for (const auto& [theme, equations] : by_theme(rules)) {
    fmt::print("{}{}{} ({})\n", bold(), theme, plain(), equations.size());
    for (const Equation* equation : equations) {
      fmt::print("  {:<36} {:<14} {}\n", equation->name, promise_text(*equation), equation->doc);
      if (!equation->guard_text.empty()) fmt::print("  {:<51} {}if {}{}\n", "", dim(), equation->guard_text, plain());
    }
  }
  std::vector<const rewrite::Rule*> written = functions(rules);
  if (written.empty()) return;
  fmt::print("{}functions{} ({})\n", bold(), plain(), written.size());
  for (const rewrite::Rule* rule : written) {
    fmt::print("  {:<36} {:<14} {}\n", rule->name, to_string(rule->promise), rule->equation);
  }
}

std::string read_file(const std::string& file) { return std::string(MappedFile::open(file)->text()); }

// Lines of a rule's name, a tab, and what is said of it.
std::map<std::string, std::string, std::less<>> read_table(const std::string& file) {
  std::map<std::string, std::string, std::less<>> table;
  if (file.empty()) return table;
  std::istringstream in(read_file(file));
  for (std::string line; std::getline(in, line);) {
    size_t tab = line.find('\t');
    if (!line.starts_with('#') && tab != std::string::npos) table[line.substr(0, tab)] = line.substr(tab + 1);
  }
  return table;
}

std::string in_cell(std::string_view text) {
  std::string escaped;
  for (char c : text) {
    if (c == '|' || c == '*' || c == '_' || c == '<') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

constexpr const char* kRulesIntroduction = R"(# Rules

Written by `anfora rules --markdown`; `make docs` writes it anew, and a test compares the two. The contract of a rule is in
[rules/README.md](../rules/README.md), the language in [adding-a-rule.md](adding-a-rule.md); `anfora rules NAME` shows one.

*Promise*: `exact` keeps every bit, `finite` every bit of what is finite, `real` what is finite and equal over the real
numbers; `real/exact` is real for floats and exact for all others; `cheaper` fires only where it is estimated to pay,
`accurate` only where what runs the result computes small values as accurately as the pattern, `kinks` not before
differentiation, since it may choose another derivative at a tie or at 0. *Checked*:
on random instances of its pattern, by proof over the integers, truth values and real numbers that it names, or by an example
in tests/file alone. *Fired*: on a collection of models (docs/rules-fired.tsv).
)";

void print_rules_markdown(const RuleSet& rules, const RulesOptions& options) {
  auto checks = read_table(options.checks), fired = read_table(options.fired);
  auto cell = [](const auto& table, std::string_view name) {
    auto found = table.find(name);
    return found == table.end() ? std::string() : found->second;
  };
  fmt::print("{}", kRulesIntroduction);
  for (const auto& [theme, equations] : by_theme(rules)) {
    fmt::print("\n## {} ({} rules)\n\n| rule | equation | promise | checked | fired |\n|---|---|---|---|--:|\n", theme,
               equations.size());
    for (const Equation* equation : equations) {
      fmt::print("| `{}` | {} | {} | {} | {} |\n", equation->name, in_cell(equation->doc), promise_text(*equation),
                 cell(checks, equation->name), cell(fired, equation->name));
    }
  }
  if (std::vector<const rewrite::Rule*> written = functions(rules); !written.empty()) {
    fmt::print("\n## Written in C++ ({} rules)\n\n| rule | equation | promise | fired |\n|---|---|---|--:|\n",
               written.size());
    for (const rewrite::Rule* rule : written) {
      fmt::print("| `{}` | {} | {} | {} |\n", rule->name, in_cell(rule->equation), to_string(rule->promise),
                 cell(fired, rule->name));
    }
  }
  fmt::print("\n## Functions\n\nOf guards, attributes and computed values. An answer may be *not known*.\n");
  const std::pair<const char*, std::span<const rewrite::Function>> tables[] = {
      {"About values", rewrite::functions_about_values()}, {"That compute", rewrite::functions_that_compute()}};
  for (const auto& [title, functions] : tables) {
    fmt::print("\n### {}\n\n", title);
    for (const rewrite::Function& function : functions) {
      // "rank(x): the number of its dimensions": what is in front of the colon is what one writes.
      size_t colon = function.doc.find(": ");
      if (colon == std::string_view::npos) {
        fmt::print("- `{}`\n", function.doc);
      } else {
        fmt::print("- `{}`: {}\n", function.doc.substr(0, colon), in_cell(function.doc.substr(colon + 2)));
      }
    }
  }
}

std::shared_ptr<const RuleSet> read_rules(ir::Context& context, const std::vector<std::string>& files) {
  try {
    return driver::rules_with(context, {files.begin(), files.end()});
  } catch (const Error& error) {
    const bool is_of_file = error.code() == ErrorCode::NotFound || error.code() == ErrorCode::Io;
    if (files.empty() || is_of_file) throw;
    throw UsageError{error};
  }
}

int run_rules(const RulesOptions& options) {
  auto context = ops::make_context();
  read_rules(*context, options.files);  // what is wrong with them is an error of usage
  const auto rules = driver::all_rules_with(*context, {options.files.begin(), options.files.end()});
  if (!options.name.empty()) {
    const Equation* equation = driver::find_rule(*rules, options.name);
    if (!equation) throw Error(ErrorCode::NotFound, fmt::format("rule {} is written in C++", options.name));
    options.json ? fmt::print("{}\n", to_json(*equation).dump(2)) : print_one(*equation);
  } else if (options.markdown) {
    print_rules_markdown(*rules, options);
  } else if (options.json) {
    print_rules_json(*rules);
  } else {
    print_rules_list(*rules);
  }
  return kSuccess;
}

}  // namespace

std::shared_ptr<const RuleSet> rules_with(ir::Context& context, const std::vector<std::string>& files) {
  return read_rules(context, files);
}

Action add_rules(CLI::App& app) {
  auto options = std::make_shared<RulesOptions>();
  CLI::App* command = app.add_subcommand("rules", "List the rewrite rules");
  command->add_option("name", options->name, "only this rule, in full");
  command->add_option("--rules", options->files, "a file of rules of your own, as for opt")->type_name("FILE");
  command->add_flag("--json", options->json, "print JSON");
  CLI::Option* markdown = command->add_flag("--markdown", options->markdown, "the document docs/rules.md");
  command->add_option("--checks", options->checks, "how each rule is checked, from tests/rules")
      ->needs(markdown)
      ->type_name("FILE");
  command->add_option("--fired", options->fired, "how often each rule fired on a collection of models")
      ->needs(markdown)
      ->type_name("FILE");
  command->footer("Example:\n  anfora rules compose-transposes");
  return [options] { return run_rules(*options); };
}

}  // namespace anfora::cli
