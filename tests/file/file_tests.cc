// Runs the tests of this folder; README.md has their format.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <ranges>
#include <sstream>

#include "analysis/evaluate.h"
#include "analysis/verify_types.h"
#include "anfora/error.h"
#include "driver/compare.h"
#include "driver/inputs.h"
#include "driver/kernels.h"
#include "ir/clone.h"
#include "ir/isomorphic.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ops/registry.h"
#include "pipeline/expand.h"
#include "pipeline/pipeline.h"
#include "plan/compile.h"

namespace anfora {
namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

constexpr int kRandomRuns = 2;
constexpr uint64_t kSeed = 1;  // of random operators

// What `# run:` says.
struct Recipe {
  std::vector<const passes::Pass*> passes;
  bool whole = false;     // the whole pipeline instead
  bool gradient = false;  // differentiation instead, and the whole pipeline behind it
  bool types = false;     // nothing instead: what inference finds
  passes::PassOptions options;
  std::optional<driver::Tolerance> tolerance;  // instead of that of the results' dtypes

  // Lowering keeps results within tolerance only.
  bool lowers() const {
    return gradient || std::ranges::any_of(passes, [](const auto* p) { return !pipeline::is_canonicalizing(*p); });
  }
};

Recipe parse_recipe(std::string_view text) {
  Recipe recipe;
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    if (word.ends_with(',')) word.pop_back();
    size_t equals = word.find('=');
    std::string_view value =
        equals == std::string::npos ? std::string_view() : std::string_view(word).substr(equals + 1);
    if (word == "optimize") {
      recipe.whole = true;
    } else if (word == "gradient") {
      recipe.gradient = true;
    } else if (word == "types") {
      recipe.types = true;
    } else if (word.starts_with("math=")) {
      recipe.options.math = rewrite::promise_named(value);
    } else if (word.starts_with("tolerance=")) {
      double relative = std::stod(std::string(value));
      recipe.tolerance = driver::Tolerance{relative, relative};
    } else if (word.starts_with("fold_limit=")) {
      std::from_chars(value.data(), value.data() + value.size(), recipe.options.fold_limit.emplace());
    } else if (word.starts_with("memory_limit=")) {
      std::from_chars(value.data(), value.data() + value.size(), recipe.options.memory_limit.emplace());
    } else if (const passes::Pass* pass = pipeline::find_pass(word)) {
      recipe.passes.push_back(pass);
    } else {
      throw Error(ErrorCode::InvalidArgument, fmt::format("'{}' is neither a pass nor an option", word));
    }
  }
  if (recipe.whole + recipe.gradient + recipe.types + !recipe.passes.empty() != 1) {
    throw Error(ErrorCode::InvalidArgument, "a test runs passes, 'optimize', 'gradient', or 'types'");
  }
  return recipe;
}

struct Test {
  std::string title;
  std::string recipe;
  size_t line = 0;            // of the title, from 1
  size_t text_line = 0;       // of the module, from 1
  std::string text;           // the module
  size_t expectation_at = 0;  // index of the line where the expectation begins
  Lines expectation;          // its lines, with "# "
};

bool is_directive(std::string_view line, std::string_view name, std::string_view* rest = nullptr) {
  std::string start = fmt::format("# {}", name);
  if (!line.starts_with(start)) return false;
  if (rest) *rest = line.substr(std::min(line.size(), line.find_first_not_of(' ', start.size())));
  return true;
}

bool begins_expectation(std::string_view line) {
  return is_directive(line, "expect:") || line == "# unchanged" || is_directive(line, "error:") ||
         is_directive(line, "refused:");
}

std::vector<Test> parse_tests(const Lines& lines) {
  std::vector<Test> tests;
  std::string recipe_of_file;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string_view rest;
    if (is_directive(lines[i], "run:", &rest)) {
      (tests.empty() ? recipe_of_file : tests.back().recipe) = rest;
    } else if (is_directive(lines[i], "test:", &rest)) {
      tests.push_back({std::string(rest), recipe_of_file, i + 1});
    } else if (!tests.empty() && begins_expectation(lines[i])) {
      tests.back().expectation_at = i;
      for (; i < lines.size() && lines[i].starts_with('#') && !is_directive(lines[i], "test:"); ++i) {
        tests.back().expectation.push_back(lines[i]);
      }
      --i;
    } else if (!tests.empty() && tests.back().expectation.empty()) {
      Test& test = tests.back();
      bool is_comment = lines[i].starts_with('#') || lines[i].empty();
      if (test.text.empty() && is_comment) continue;
      if (test.text.empty()) test.text_line = i + 1;
      test.text += lines[i] + '\n';
      if (!is_comment) test.expectation_at = i + 1;  // where one would go that is not there yet
    } else if (!tests.empty() && !lines[i].empty() && !lines[i].starts_with('#')) {
      throw Error(ErrorCode::InvalidModel, "text behind the expectation of a test")
          .at_location(fmt::format("line {}", i + 1));
    }
  }
  return tests;
}

std::string show(const ir::Module& module) {
  return print(module, {.numbers = ir::PrintOptions::Numbers::Sequential, .locations = false, .header = false});
}

// The passes on a module that is typed; verified after each.
void run_recipe(const Recipe& recipe, ir::Module& module, rewrite::Remarks& remarks) {
  if (recipe.whole) {
    pipeline::OptimizeOptions options;
    options.passes = recipe.options;
    options.keep_remarks = true;
    remarks = pipeline::optimize(module, options).remarks;
  }
  if (recipe.gradient) {
    for (const pipeline::Pipeline* pipeline : {&pipeline::kGradient, &pipeline::kStore}) {
      pipeline::optimize(module, {.pipeline = pipeline, .passes = recipe.options, .verify = true});
    }
    remarks.applied("differentiate", "differentiate", *module.main()->value());
  }
  for (const passes::Pass* pass : recipe.passes) {
    passes::PassContext context(module, remarks, recipe.options);
    context.inference.run();
    pass->run(context);
    analysis::verify_typed_or_throw(module);
    analysis::infer_types(module);
  }
  analysis::verify_typed_or_throw(module);
}

// The rules that fired, and what was refused, as the expectation shows it.
Lines show_remarks(const rewrite::Remarks& remarks) {
  std::vector<std::pair<std::string_view, int>> fired;
  Lines lines;
  for (const rewrite::Remark& remark : remarks.all()) {
    if (remark.outcome == rewrite::Remark::Outcome::Guarded) continue;
    if (remark.outcome == rewrite::Remark::Outcome::Refused) {
      std::string line = fmt::format("# refused: {} at {}: {}", remark.rule, remark.node, remark.message);
      if (!std::ranges::count(lines, line)) lines.push_back(std::move(line));
    } else if (!fired.empty() && fired.back().first == remark.rule) {
      ++fired.back().second;
    } else {
      fired.emplace_back(remark.rule, 1);
    }
  }
  std::string rules;
  for (auto [rule, count] : fired) {
    rules += fmt::format("{}{}", rules.empty() ? " " : ", ", rule);
    if (count > 1) rules += fmt::format(" ×{}", count);
  }
  lines.insert(lines.begin(), fired.empty() ? "# unchanged" : "# expect:" + rules);
  return lines;
}

// What is computed, or the message of the error that comes instead.
struct Outcome {
  std::vector<Datum> values;
  std::string error;
};
template <class Compute>
Outcome outcome_of(Compute compute) {
  try {
    return {compute(), ""};
  } catch (const Error& error) {
    return {{}, error.message()};
  }
}

std::string compare(const Outcome& got, const Outcome& want, std::optional<driver::Tolerance> tolerance) {
  if (want.error != got.error) return fmt::format("error '{}' instead of '{}'", got.error, want.error);
  for (size_t i = 0; i < want.values.size(); ++i) {
    std::string difference = driver::compare(got.values[i], want.values[i], tolerance).difference;
    if (!difference.empty()) return fmt::format("result {}: {}", i, difference);
  }
  return "";
}

// The first difference in what two modules compute by the reference kernels, and in what the second one does when it is
// lowered and compiled; empty: there is none. What an operator that is expanded computes is said by its expansion alone (and
// by ONNX Runtime, tests/differential): then the second one is compared with itself.
std::string compare_results(const ir::Module& before, const ir::Module& after, bool exactly,
                            std::optional<driver::Tolerance> tolerance) {
  if (!pipeline::has_expansions(before) && pipeline::has_expansions(after)) {
    std::unique_ptr<ir::Module> expanded = clone(after);
    analysis::infer_types(*expanded);
    pipeline::expand(*expanded);
    return compare_results(before, *expanded, exactly, tolerance);
  }
  std::unique_ptr<ir::Module> lowered = clone(after);
  constexpr double kAnySaving = -1e30;  // however small a group is
  pipeline::optimize(*lowered, {.pipeline = &pipeline::kLower, .passes = {.least_group_saving_us = kAnySaving}});
  std::optional<runtime::Executable> executable;
  const ir::Module& reference = pipeline::has_expansions(before) ? after : before;
  for (int run = 0; run <= kRandomRuns; ++run) {
    bool edge = run == kRandomRuns;
    if (edge && !exactly) break;
    std::vector<Datum> inputs = driver::random_inputs(before, {.seed = static_cast<uint64_t>(run)}, edge);
    Outcome want = outcome_of([&] { return analysis::interpret(reference, inputs, kSeed); });
    Outcome got = outcome_of([&] { return analysis::interpret(after, inputs, kSeed); });
    std::string_view kind = edge ? "on edge values" : "on random values";
    std::string difference = compare(got, want, exactly ? driver::Tolerance{} : tolerance);
    if (!difference.empty()) return fmt::format("{} {}", kind, difference);
    if (edge) break;
    got = outcome_of([&] {
      if (!executable) executable = plan::compile(*lowered, {.prepared = generating_kernels()});
      return executable->run(inputs, {.seed = kSeed});
    });
    if (want.error.empty() || got.error.empty()) difference = compare(got, want, tolerance);  // messages may differ
    if (!difference.empty()) return fmt::format("compiled, {} {}", kind, difference);
  }
  return "";
}

struct Verdict {
  Lines got;            // the expectation that would be right
  std::string failure;  // what no blessing can mend
};

Verdict run_test(const Test& test, const std::string& file) {
  auto context = ops::make_context();
  Verdict verdict;
  std::unique_ptr<ir::Module> module, before;
  rewrite::Remarks remarks(true);
  Recipe recipe = parse_recipe(test.recipe);
  try {
    // Errors shall name lines of the file.
    module = ir::parse(*context, std::string(test.text_line - 1, '\n') + test.text, {.file = file, .locate = true});
    ir::verify_or_throw(*module, ErrorCode::InvalidModel);
    analysis::infer_types(*module);
  } catch (const Error& error) {
    verdict.got = {fmt::format("# error: {}", error.message().substr(0, error.message().find('\n')))};
    return verdict;
  }
  analysis::verify_typed_or_throw(*module);
  before = clone(*module);
  std::unique_ptr<ir::Module> exact = clone(*module);
  run_recipe(recipe, *module, remarks);

  verdict.got = recipe.types ? Lines{"# expect: types"} : show_remarks(remarks);
  bool changed = verdict.got[0] != "# unchanged";
  if (!changed && show(*before) != show(*module)) {
    verdict.failure = "no rule fired, but the module changed:\n" + show(*module);
  }
  if (changed) {
    std::istringstream text(show(*module));
    for (std::string line; std::getline(text, line);) verdict.got.push_back(line.empty() ? "#" : "# " + line);
  }
  rewrite::Remarks ignored;
  Recipe exactly = recipe;
  exactly.options.math = rewrite::Promise::Exact;
  run_recipe(exactly, *exact, ignored);
  bool promises_all_bits = !recipe.lowers() && isomorphic(*exact, *module);
  std::string difference = compare_results(*before, *module, promises_all_bits, recipe.tolerance);
  if (!difference.empty()) verdict.failure = "the results differ: " + difference;
  return verdict;
}

// Both texts from where they differ to where they are the same again.
std::string show_difference(const Lines& want, const Lines& got) {
  size_t first = 0, same_end = 0;
  while (first < std::min(want.size(), got.size()) && want[first] == got[first]) ++first;
  while (same_end < std::min(want.size(), got.size()) - first &&
         want[want.size() - 1 - same_end] == got[got.size() - 1 - same_end]) {
    ++same_end;
  }
  std::string text;
  for (size_t i = 0; i < first; ++i) text += "   " + want[i] + '\n';
  for (size_t i = first; i < want.size() - same_end; ++i) text += " - " + want[i] + '\n';
  for (size_t i = first; i < got.size() - same_end; ++i) text += " + " + got[i] + '\n';
  for (size_t i = want.size() - same_end; i < want.size(); ++i) text += "   " + want[i] + '\n';
  return text;
}

struct Options {
  bool bless = false;
  std::string only;
};
struct Totals {
  int passed = 0, failed = 0, blessed = 0;
};

void run_file(const fs::path& path, const Options& options, Totals& totals) {
  Lines lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::vector<Test> tests = parse_tests(lines);
  int blessed_before = totals.blessed;
  // From the end, so that lines before stay where they are.
  for (const Test& test : tests | std::views::reverse) {
    if (test.title.find(options.only) == std::string::npos) continue;
    Verdict verdict;
    try {
      verdict = run_test(test, path.filename().string());
    } catch (const Error& error) {
      verdict.failure = error.what();
    }
    bool as_expected = verdict.got == test.expectation;
    bool says_unchanged = !test.expectation.empty() && test.expectation[0] == "# unchanged";
    bool may_bless = !says_unchanged || (!verdict.got.empty() && verdict.got[0] == "# unchanged");
    if (verdict.failure.empty() && as_expected) {
      ++totals.passed;
    } else if (verdict.failure.empty() && options.bless && may_bless) {
      auto at = lines.begin() + static_cast<std::ptrdiff_t>(test.expectation_at);
      at = lines.erase(at, at + static_cast<std::ptrdiff_t>(test.expectation.size()));
      lines.insert(at, verdict.got.begin(), verdict.got.end());
      ++totals.blessed;
    } else {
      ++totals.failed;
      std::cout << fmt::format("{}:{}: {}\n", path.string(), test.line, test.title);
      if (!verdict.failure.empty()) std::cout << "   " << verdict.failure << '\n';
      if (!as_expected && !verdict.got.empty()) std::cout << show_difference(test.expectation, verdict.got);
    }
  }
  if (totals.blessed == blessed_before) return;
  in.close();
  std::ofstream out(path);
  for (const std::string& line : lines) out << line << '\n';
}

int run(int argc, char** argv) {
  Options options;
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    if (argument == "--bless") {
      options.bless = true;
    } else if (argument == "--only" && i + 1 < argc) {
      options.only = argv[++i];
    } else if (fs::is_directory(argument)) {
      for (const auto& entry : fs::recursive_directory_iterator(argument)) {
        if (entry.path().extension() == ".ir") files.push_back(entry.path());
      }
    } else {
      files.emplace_back(argument);
    }
  }
  std::ranges::sort(files);
  Totals totals;
  for (const fs::path& file : files) {
    try {
      run_file(file, options, totals);
    } catch (const Error& error) {
      std::cout << file.string() << ": " << error.what() << '\n';
      ++totals.failed;
    }
  }
  std::cout << fmt::format("{} passed, {} failed", totals.passed, totals.failed);
  if (totals.blessed) std::cout << fmt::format(", {} blessed", totals.blessed);
  std::cout << '\n';
  return totals.failed > 0 || files.empty() ? 1 : 0;
}

}  // namespace
}  // namespace anfora

int main(int argc, char** argv) { return anfora::run(argc, argv); }
