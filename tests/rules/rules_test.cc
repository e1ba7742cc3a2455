// Checks rules; README.md says how.
//
// usage: rules_test [--thorough] [--only TEXT] [--examples FOLDER] [--table FILE] [--wrong] [--redundant] [FILE.rules …]
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>

#include "anfora/error.h"
#include "ops/registry.h"
#include "passes/pass.h"
#include "rules/check.h"
#include "rules/proof.h"
#include "rules/redundant.h"

namespace anfora::rules {
namespace {

namespace fs = std::filesystem;

struct Options {
  Effort effort;
  std::string only;
  std::string examples;  // a folder of file tests
  std::string table;     // a file for how each rule was checked, which docs/rules.md tells
  bool wrong = false;    // every rule is wrong, and must be found to be
  bool redundant = false;  // prints the rules that the others, of rules/ and in C++, do without
  std::vector<std::string> files;
};

// Names of rules in the expectations of file tests: "# expect: unit-factor, fold ×2".
std::set<std::string> rules_with_example(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".ir") continue;
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) {
      if (!line.starts_with("# expect: ")) continue;
      std::istringstream list(line.substr(10));
      for (std::string name; std::getline(list, name, ',');) {
        name.erase(0, name.find_first_not_of(' '));
        names.insert(name.substr(0, name.find(' ')));
      }
    }
  }
  return names;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw Error(ErrorCode::NotFound, "cannot read " + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

void read_rules(const Options& options, rewrite::RuleSet& rules) {
  for (const std::string& file : options.files) rules.read(read_file(file), file);
  if (!options.files.empty()) return;
  rules.add(*passes::standard_rules());
  rules.add(*passes::rules_of_passes());
}

std::string dtype_list(const std::set<DType>& dtypes) {
  std::string text;
  for (DType dtype : dtypes) text += fmt::format("{}{}", text.empty() ? "" : " ", name(dtype));
  return text;
}

std::string describe(const Proof& proof) {
  if (proof.verdict == Proof::Verdict::NotTried) return "";
  if (proof.domains.empty()) return "; not decided";
  return fmt::format("; proved for {}{}", proof.domains, proof.verdict == Proof::Verdict::Proved ? "" : " only");
}

// "random, proof for i8 u8 i32 u32 reals"
std::string summary(const Finding& finding, const Proof& proof) {
  std::string text = finding.fired > 0 ? "random" : "example";
  return proof.domains.empty() ? text : fmt::format("{}, proof for {}", text, proof.domains);
}

int run(const Options& options) {
  auto context = ops::make_context();
  rewrite::RuleSet rules(*context);
  read_rules(options, rules);
  std::set<std::string> examples;
  if (!options.examples.empty()) examples = rules_with_example(options.examples);
  std::ofstream table;
  if (!options.table.empty()) table.open(options.table);
  int checked = 0, by_example = 0, proved = 0, refuted = 0, failed = 0;
  for (const rewrite::Equation& equation : rules.equations()) {
    if (equation.name.find(options.only) == std::string::npos) continue;
    ++checked;
    Finding finding = check_equation(equation, *context, options.effort);
    Proof proof = prove(equation);
    proved += !proof.domains.empty();
    refuted += proof.verdict == Proof::Verdict::Refuted;
    if (proof.verdict == Proof::Verdict::Refuted && finding.failure.empty()) {
      finding.failure = fmt::format("{}: {}\nrefuted in {}", equation.place, equation.text, proof.counterexample);
    }
    table << equation.name << '\t' << summary(finding, proof) << '\n';
    bool is_found = !finding.failure.empty();
    if (options.wrong ? !is_found : is_found) {
      ++failed;
      fmt::print("FAILED {}\n{}\n\n", equation.name,
                 options.wrong ? "  is wrong, which was not found" : finding.failure);
    } else if (options.wrong) {
      fmt::print("{:<40} found to be wrong, at attempt {}\n", equation.name, finding.attempts);
    } else if (finding.fired == 0) {
      ++by_example;
      fmt::print("{:<40} by example only{}\n", equation.name, describe(proof));
    } else {
      fmt::print("{:<40} {:>3} instances, {:>3} symbolic, of {:>4}: {}{}\n", equation.name, finding.fired,
                 finding.symbolic, finding.attempts, dtype_list(finding.dtypes), describe(proof));
    }
    std::fflush(stdout);
    if (!options.examples.empty() && !examples.contains(std::string(equation.name))) {
      ++failed;
      fmt::print("FAILED {}\n{}: no test in {} expects it to fire\n\n", equation.name, equation.place,
                 options.examples);
    }
  }
  fmt::print("{} rules: {} on random instances, {} by example only, {} proved, {} refuted by proof; {} failed\n",
             checked, checked - by_example, by_example, proved, refuted, failed);
  if (options.wrong && refuted == 0) ++failed;  // then the solver does not work
  return failed > 0 || checked == 0 ? 1 : 0;
}

// One after the other, each without those that were found before.
int find_redundant(const Options& options) {
  auto context = ops::make_context();
  auto rules = passes::standard_rules();
  std::set<std::string_view> redundant;
  for (const rewrite::Equation& equation : rules->equations()) {
    if (equation.name.find(options.only) == std::string::npos && equation.theme != options.only) continue;
    const Redundancy found = find_need(equation, *rules, *context, redundant);
    if (found.instances > 0 && found.needed_by.empty()) redundant.insert(equation.name);
    fmt::print("{:<12} {} {}\n", found.instances == 0 ? "no instance" : found.needed_by.empty() ? "redundant" : "needed", equation.place, equation.name);
    if (!options.only.empty()) fmt::print("{}\n", found.needed_by);
    std::fflush(stdout);
  }
  fmt::print("{} of {} are redundant\n", redundant.size(), rules->equations().size());
  return 0;
}

Options parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument == "--thorough") {
      options.effort = {.instances = 1000, .attempts = 50000};
    } else if (argument == "--only" && i + 1 < argc) {
      options.only = argv[++i];
    } else if (argument == "--examples" && i + 1 < argc) {
      options.examples = argv[++i];
    } else if (argument == "--table" && i + 1 < argc) {
      options.table = argv[++i];
    } else if (argument == "--wrong") {
      options.wrong = true;
    } else if (argument == "--redundant") {
      options.redundant = true;
    } else {
      options.files.push_back(argument);
    }
  }
  return options;
}

}  // namespace
}  // namespace anfora::rules

int main(int argc, char** argv) {
  try {
    const anfora::rules::Options options = anfora::rules::parse_options(argc, argv);
    return options.redundant ? anfora::rules::find_redundant(options) : anfora::rules::run(options);
  } catch (const anfora::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
