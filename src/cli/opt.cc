#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <set>

#include "anfora/error.h"
#include "cli/command.h"
#include "cli/files.h"
#include "cli/opt_report.h"
#include "cli/output.h"
#include "cli/rules.h"
#include "cli/text.h"
#include "driver/agreement.h"
#include "driver/audit.h"
#include "driver/fit.h"
#include "driver/flops.h"
#include "driver/model.h"
#include "driver/name_patterns.h"
#include "driver/optimize.h"
#include "driver/staged_model.h"
#include "ir/clone.h"
#include "ir/text_file.h"
#include "pipeline/constness.h"
#include "pipeline/expand.h"
#include "support/atomic_file.h"

namespace anfora::cli {
namespace {

struct OptOptions {
  std::string input, output, opset = "keep", target = "onnx", value_info = "keep", save_graphs;
  rewrite::Promise math = rewrite::Promise::Real;
  std::vector<std::string> passes, rules, trainable, freeze, inputs;
  std::string remarks;
  driver::SizeByName dims;
  driver::Pins pins;
  int64_t fuel = -1;
  std::optional<int64_t> fold_limit;
  int runs = 1;
  bool no_check = false, keep = false, assume_finite = false, expand = false, outline = false, prune_inputs = false,
       audit = false, verify_ir = false, json = false;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// What the comparison of both models by execution gave.
struct Verdict {
  enum class Kind : uint8_t { Verified, NotVerified, Differs } kind = Kind::NotVerified;
  std::string text, reason = {};

  std::string color() const { return kind == Kind::Verified ? green() : kind == Kind::Differs ? red() : yellow(); }
};

// Model and inputs as the options say.
driver::LoadedModel load_pinned(const std::string& path, const OptOptions& options) {
  driver::LoadedModel model = driver::load_model(path);
  driver::pin_shapes(*model.module, options.pins);
  return model;
}

Verdict verdict_of(const driver::Agreement& agreement, const OptOptions& options) {
  using Kind = Verdict::Kind;
  if (!agreement.same) return {Kind::Differs, "DIFFERS: " + agreement.message};
  if (!agreement.is_compared()) {
    const std::string what =
        options.dims.empty() ? "made-up inputs do not fit" : "made-up inputs of these sizes do not fit";
    return {Kind::NotVerified,
            fmt::format("NOT VERIFIED: {}. Try {}{}--input in.npz", what, agreement.suggestion,
                        agreement.suggestion.empty() ? "" : ", or "),
            agreement.not_compared};
  }
  std::string text = "verified: same outputs";
  if (agreement.errors) {
    text += ", " + agreement.errors->text();
  } else if (agreement.worst == 0) {
    text += ", bit for bit";
  } else {
    text += fmt::format(" (max {:.0e} relative)", agreement.worst_relative);
  }
  if (!agreement.found.empty()) text += ", with " + agreement.found;
  return {Kind::Verified, text};
}

Verdict check(const OptOptions& options, const std::filesystem::path& written) {
  driver::LoadedModel before = load_pinned(options.input, options), after;
  try {
    after = driver::load_model(written);
  } catch (const Error& error) {
    return {Verdict::Kind::Differs, fmt::format("DIFFERS: what was written cannot be read: {}", error.what())};
  }
  runtime::Executable a = driver::compile_as_is(*before.module), b = driver::compile_as_is(*after.module);
  if (!a.missing_kernels().empty())
    return {Verdict::Kind::NotVerified, fmt::format("NOT VERIFIED: no kernel for {}", a.missing_kernels()[0])};
  driver::AgreementOptions how{.runs = options.runs, .dims = options.dims, .promise = options.math};
  if (!options.inputs.empty())
    how.given = driver::in_order(*before.module, driver::read_inputs(*before.module, options.inputs));
  try {
    return verdict_of(driver::check_agreement(*before.module, a, *after.module, b, how), options);
  } catch (const Error& error) {
    if (!options.inputs.empty()) throw;
    return {Verdict::Kind::NotVerified, fmt::format("NOT VERIFIED: {}", error.what())};
  }
}

// What --check runs the passes on.
driver::AuditOptions audit_options(const ir::Module& module, const OptOptions& options) {
  driver::AuditOptions audit{.inputs = {.dims = options.dims}};
  if (!options.inputs.empty()) {
    audit.given = driver::read_inputs(module, options.inputs);
  } else {
    runtime::Executable executable = driver::compile_as_is(module);
    audit.inputs = driver::fit_inputs(module, executable, audit.inputs).inputs;
  }
  return audit;
}

// That a run takes more operations than before, and the rules that it is by.
std::string on_rise(const driver::FlopPair& flops, const rewrite::Remarks& remarks) {
  constexpr size_t kMostRules = 3;
  std::vector<std::pair<double, std::string_view>> rules;
  for (const auto& [rule, statistics] : remarks.statistics()) {
    if (statistics.added_flops > 0) rules.emplace_back(-statistics.added_flops, rule);
  }
  std::ranges::sort(rules);
  std::string names;
  for (size_t i = 0; i < std::min(rules.size(), kMostRules); ++i) {
    names.append(names.empty() ? ", by " : ", ").append(rules[i].second);
  }
  return fmt::format("more operations a run: {} instead of {}{}", human_flops(flops.after), human_flops(flops.before),
                     names);
}

// Beside the output, or here where that is standard output.
std::filesystem::path reproducer_of(const OptOptions& options) {
  const bool has_name = options.output != kStandardOutput;
  std::filesystem::path file(has_name ? options.output : options.input);
  return (has_name ? file : file.filename()).replace_extension(".defect.ir");
}

// What --check found, and a small module that shows it beside the output, which is not written.
int report_finding(std::FILE* to, const driver::Finding& finding, const OptOptions& options,
                   const passes::PassOptions& passes, const driver::AuditOptions& audit) {
  const std::filesystem::path reproducer = reproducer_of(options);
  ir::write_text_file(*driver::reduce_finding(finding, passes, audit), reproducer);
  std::string what = finding.rule.empty()
                         ? fmt::format("pass {}", finding.pass)
                         : fmt::format("rule {} (pass {}), at {},", finding.rule, finding.pass, finding.node);
  fmt::print(to, "{}{} changes the result{}: {}\n  a small module that shows it: {}\n", red(), what, plain(),
             finding.message, reproducer.string());
  return kDiffers;
}

// Which initializers are constants, by --trainable and --freeze.
class Constness {
 public:
  explicit Constness(const OptOptions& options)
      : trainable_(options.trainable), frozen_(options.freeze), freezes_all_(options.freeze == std::vector{kAll}) {}

  driver::LoadedModel load(const std::string& path) {
    driver::LoadedModel model = trainable_.empty() ? driver::load_model(path)
                                                   : driver::load_model(path, [&](auto name) { return train(name); });
    pipeline::freeze_defaults(*model.module, [&](std::string_view name) {
      const bool is_trained = trainable_.matches(name), is_frozen = frozen_.matches(name);
      if (is_trained && is_frozen) train(name);
      return is_frozen && !is_trained;
    });
    trainable_.require_use("initializer");
    if (!freezes_all_) frozen_.require_use("initializer that is an input as well");
    return model;
  }
  bool is_weight(std::string_view name) const { return weights_.contains(name); }

  static inline const std::string kAll = "*";

 private:
  bool train(std::string_view name) { return trainable_.matches(name) && weights_.emplace(name).second; }

  driver::NamePatterns trainable_, frozen_;
  bool freezes_all_;
  std::set<std::string, std::less<>> weights_;  // trainable, and no inputs
};

int run_opt(const OptOptions& options) {
  auto start = std::chrono::steady_clock::now();
  Files files;
  files.reads(options.input).reads(options.rules).reads(options.inputs);
  files.writes("--output", options.output, true).writes("--remarks", options.remarks);
  if (options.audit) files.writes("--check", reproducer_of(options).string(), true);
  files.check();
  Output output(options.output, ".onnx");
  Constness constness(options);
  driver::LoadedModel model = constness.load(options.input);
  files.check_loaded();
  driver::pin_shapes(*model.module, options.pins);
  driver::require_dims(*model.module, options.dims);
  driver::read_inputs(*model.module, options.inputs);  // that they fit is known before the work is done
  const driver::FileSummary file = driver::summarize_file(*model.module, options.input);
  OptSide before{
      .path = options.input, .nodes = file.nodes, .bytes = file.bytes, .summary = driver::summarize(*model.module)};
  const std::unique_ptr<ir::Module> original = ir::clone(*model.module);
  const bool has_passes = options.passes != std::vector<std::string>{"none"};
  const driver::OptimizeOptions how{.target = options.target,
                                    .opset = options.opset,
                                    .math = options.math,
                                    .assume_finite = options.assume_finite,
                                    .expand = options.expand,
                                    .outline = options.outline,
                                    .fold_limit = options.fold_limit,
                                    .passes = has_passes ? options.passes : std::vector<std::string>()};
  pipeline::OptimizeOptions passes = driver::pass_options(*model.module, how);
  if (!options.rules.empty()) passes.passes.rules = rules_with(model.module->context(), options.rules);
  int64_t fuel = options.fuel;
  if (fuel >= 0) passes.passes.fuel = &fuel;
  passes.keep_remarks = !options.remarks.empty();
  passes.verify = options.verify_ir;
  passes.save_graphs = options.save_graphs;
  passes.stages_before = model.stages;
  pipeline::OptimizeReport report;
  const size_t nodes_read = model.module->num_operations();
  if (!has_passes) {
    if (options.expand) pipeline::expand(*model.module);
  } else {
    Progress progress("optimizing");
    passes.on_stage = [&](std::string_view pass, size_t round) {
      progress.update(-1, fmt::format("round {}, {}", round, pass));
    };
    if (options.audit) {
      const driver::AuditOptions audit = audit_options(*model.module, options);
      auto finding = driver::optimize_audited(*model.module, passes, report, audit);
      if (finding) return report_finding(output.messages(), *finding, options, passes.passes, audit);
    } else {
      report = pipeline::optimize(*model.module, passes);
    }
  }
  if (options.prune_inputs) pipeline::prune_inputs(*model.module);
  if (!options.remarks.empty()) {
    AtomicFile file(options.remarks);
    file.write(remark_lines(report.remarks));
    file.commit();
  }
  driver::StagedModel staged(output.file());
  driver::SaveOptions saving = driver::save_options(how);
  saving.value_info = options.value_info;
  saving.is_weight = [&](auto name) { return constness.is_weight(name); };
  driver::SaveReport saved = driver::save_model(*model.module, staged.path(), saving);
  double seconds = seconds_since(start);
  report.nodes_before = nodes_read;
  report.nodes_after = model.module->num_operations();
  OptSide after{
      .path = options.output, .nodes = saved.nodes, .bytes = saved.bytes, .summary = driver::summarize(*model.module)};
  const driver::FlopPair flops = driver::compare_flops(*original, *model.module, options.dims);
  before.summary.flops = flops.before;
  after.summary.flops = flops.after;
  if (flops.rises()) saved.note.append(saved.note.empty() ? "" : "; ").append(on_rise(flops, report.remarks));
  Verdict verdict{.text = "not verified"};
  if (!options.no_check) verdict = check(options, staged.path());
  const bool failed = verdict.kind == Verdict::Kind::Differs;
  if (!failed || options.keep) {
    staged.accept();
  } else {
    verdict.text += fmt::format("; {} is not written (--keep writes it all the same)", options.output);
  }
  const int code = failed ? kDiffers : kSuccess;
  OptResult result{.before = std::move(before),
                   .after = std::move(after),
                   .report = report,
                   .seconds = seconds,
                   .verdict = verdict.text,
                   .color = verdict.color(),
                   .is_verified = verdict.kind == Verdict::Kind::Verified,
                   .reason = verdict.reason,
                   .note = saved.note};
  if (options.json) {
    print_json(output.messages(), to_json(result));
  } else {
    print_table(output.messages(), result);
  }
  if (!failed || options.keep) output.finish();
  return code;
}

}  // namespace

Action add_opt(CLI::App& app) {
  auto options = std::make_shared<OptOptions>();
  CLI::App* command = app.add_subcommand("opt", "Optimize a model and write it back as ONNX");
  command->add_option("model", options->input, "an .onnx or .ir file, or file.py::function")->required()->type_name("FILE");
  command->add_option("-o,--output,output", options->output, "the optimized model, .onnx or .ir; - is standard output")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--opset", options->opset,
                   "operator set to write: keep (default), newest (that the target reads), or a number; "
                   "what it lacks (Gelu before 20) is not made")
      ->type_name("SET");
  add_target(*command, options->target);
  command
      ->add_option("--value-info", options->value_info,
                   "types of values between nodes to write: keep (those that the model states; default), all, none")
      ->check(CLI::IsMember({"keep", "all", "none"}));
  add_math(*command, options->math);
  command->add_flag("--assume-finite", options->assume_finite,
                    "assume that no intermediate value is NaN or infinite: what comparisons with NaN decide need not stay");
  command
      ->add_option("--fold-limit", options->fold_limit,
                   "bytes by which a folded constant may exceed what it replaces (default: 65536, or a 400th of all "
                   "constants)")
      ->type_name("INT")
      ->check(whole_number(0, std::numeric_limits<int64_t>::max()));
  command->add_option("--passes", options->passes, "only these passes, separated by commas, or none")
      ->delimiter(',')
      ->type_name("PASS");
  command
      ->add_option("--rules", options->rules, "a file of rules of your own, which are tried before the built-in ones")
      ->type_name("FILE");
  command
      ->add_option("--fuel", options->fuel,
                   "stop after so many rewrites; bisect with it to find a wrong one")
      ->check(whole_number(0, std::numeric_limits<int64_t>::max()));
  command->add_option("--remarks", options->remarks,
                      "a file for applied and refused rewrites and why: JSON lines");
  command
      ->add_option("--save-graphs", options->save_graphs,
                   "a folder for the module after each pass, with an index.html")
      ->type_name("FOLDER");
  command->add_flag("--expand", options->expand, "write operators of ONNX Runtime (com.microsoft) as those of ONNX");
  command->add_flag(
      "--outline", options->outline,
      "write what is repeated, as layers are, as functions that are called; what came as a function and is called "
      "more than once is one again anyway, where that is smaller");
  command->add_flag("--prune-inputs", options->prune_inputs, "drop inputs that no output depends on");
  command
      ->add_option("--trainable", options->trainable,
                   "initializers of that name (* for any characters) stay as they are: nothing is computed from them")
      ->allow_extra_args(false)
      ->type_name("NAME");
  command->add_flag(
      "--freeze{" + Constness::kAll + "}", options->freeze,
      "initializers that are inputs as well become constants, and no inputs any more; --freeze=NAME: those");
  add_pins(*command, options->pins);
  constexpr const char* kChecks = "Checks (both models are run and compared at the end unless --no-check is given)";
  command
      ->add_option("--input", options->inputs,
                   "compare on these instead of made-up inputs: .npz by the inputs' names; .npy or .pb in their "
                   "order, or NAME=FILE")
      ->group(kChecks);
  add_dims(*command, options->dims);
  command->get_option("--dim")->group(kChecks);
  command->add_option("--check-runs", options->runs, "number of random inputs for the comparison at the end")
      ->capture_default_str()
      ->check(whole_number(0, kMostRuns))
      ->group(kChecks);
  CLI::Option* no_check =
      command->add_flag("--no-check", options->no_check, "do not run and compare the models at the end")
          ->group(kChecks);
  command->add_flag("--keep", options->keep, "write the model also where it was found to differ")->group(kChecks);
  command
      ->add_flag(
          "--check", options->audit,
          "also run the model before and after every pass (slow), and name the first rule that changes the result")
      ->excludes(no_check)
      ->group(kChecks);
  command
      ->add_flag("--verify", options->verify_ir,
                 "also check that the graph is well formed around every pass; runs nothing")
      ->group(kChecks);
  command->add_flag("--json", options->json, "print JSON");
  command->footer("Example:\n  anfora opt resnet50.onnx -o small.onnx");
  return [options] { return run_opt(*options); };
}

}  // namespace anfora::cli
