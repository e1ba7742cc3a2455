#include "driver/audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "anfora/error.h"
#include "driver/compare.h"
#include "driver/model.h"
#include "driver/reduce.h"
#include "ir/clone.h"

namespace anfora::driver {
namespace {

using namespace ir;
using passes::Pass;
using passes::PassOptions;

struct AuditRun {
  std::vector<Datum> inputs, outputs;
};

// What a module computes on inputs that it accepts.
std::vector<AuditRun> runs_of(const Module& module, bool with_edges, const AuditOptions& audit) {
  std::vector<AuditRun> runs;
  runtime::Executable executable = compile_as_is(module);
  for (int i = 0; i < audit.runs + (with_edges ? 1 : 0); ++i) {
    AuditRun run;
    run.inputs =
        random_inputs(module, {.seed = audit.seed + static_cast<uint64_t>(i), .dims = audit.dims}, i == audit.runs);
    try {
      run.outputs = executable.run(run.inputs, {.seed = audit.seed});
    } catch (const Error&) {
      continue;  // made-up inputs do not suit every model
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

// What differs in the results of another module on the same inputs; empty: nothing.
std::string difference(const Module& module, const std::vector<AuditRun>& runs, bool exactly,
                       const AuditOptions& audit) {
  runtime::Executable executable = compile_as_is(module);
  std::optional<Tolerance> tolerance = exactly ? std::optional(Tolerance{}) : std::nullopt;
  for (const AuditRun& run : runs) {
    std::vector<Datum> got;
    try {
      got = executable.run(run.inputs, {.seed = audit.seed});
    } catch (const Error& error) {
      return fmt::format("it fails: {}", error.message());
    }
    for (size_t i = 0; i < got.size(); ++i) {
      Comparison comparison = compare(got[i], run.outputs[i], tolerance, Scale::Tensor);
      if (!comparison.difference.empty()) {
        return fmt::format("output '{}': {}", executable.outputs()[i].name, comparison.difference);
      }
    }
  }
  return "";
}

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// The module after the pass, with at most `fuel` rewrites by rules; null where it changes nothing.
std::unique_ptr<Module> after(const Pass& pass, const Module& before, PassOptions options, int64_t fuel,
                              rewrite::Remarks& remarks) {
  std::unique_ptr<Module> module = clone(before);
  options.fuel = &fuel;
  passes::PassContext context(*module, remarks, options);
  context.inference.run();
  if (pass.run(context) == 0) return nullptr;
  try {
    context.inference.run();
  } catch (const Error&) {
    return nullptr;  // the pipeline takes it back
  }
  return module;
}

}  // namespace

std::optional<Finding> audit_pass(const Pass& pass, const Module& before, const PassOptions& options,
                                  const AuditOptions& audit) {
  bool exactly = options.math == rewrite::Promise::Exact;
  rewrite::Remarks all(true);
  std::unique_ptr<Module> changed = after(pass, before, options, kUnlimited, all);
  if (!changed) return std::nullopt;
  std::vector<AuditRun> runs = runs_of(before, exactly, audit);
  std::string message = difference(*changed, runs, exactly, audit);
  if (message.empty()) return std::nullopt;

  auto changes = [&](int64_t fuel, rewrite::Remarks& remarks) {
    std::unique_ptr<Module> module = after(pass, before, options, fuel, remarks);
    return module ? difference(*module, runs, exactly, audit) : "";
  };
  Finding finding{.pass = std::string(pass.name), .message = message, .before = clone(before)};
  analysis::infer_types(*finding.before);
  rewrite::Remarks none(true);
  if (!changes(0, none).empty()) return finding;  // not by rules
  int64_t fine = 0, wrong = static_cast<int64_t>(all.all().size());
  while (wrong - fine > 1) {
    int64_t middle = fine + (wrong - fine) / 2;
    rewrite::Remarks ignored;
    (changes(middle, ignored).empty() ? fine : wrong) = middle;
  }
  rewrite::Remarks last(true);
  finding.message = changes(wrong, last);
  for (const rewrite::Remark& remark : last.all()) {
    if (remark.outcome != rewrite::Remark::Outcome::Applied) continue;
    finding.rule = remark.rule;
    finding.node = remark.node;
  }
  return finding;
}

std::optional<Finding> optimize_audited(Module& module, const pipeline::OptimizeOptions& options,
                                        pipeline::OptimizeReport& report, const AuditOptions& audit) {
  std::optional<Finding> finding;
  pipeline::OptimizeOptions watched = options;
  watched.allow_pass = [&](const Pass& pass, const Module& before, const PassOptions& pass_options) {
    finding = audit_pass(pass, before, pass_options, audit);
    return !finding;
  };
  report = pipeline::optimize(module, watched);
  return finding;
}

std::unique_ptr<Module> reduce_finding(const Finding& finding, const PassOptions& options, const AuditOptions& audit) {
  const Pass* pass = pipeline::find_pass(finding.pass);
  return reduce(*finding.before, [&](const Module& module) {
    auto found = audit_pass(*pass, module, options, audit);
    return found && found->rule == finding.rule;
  });
}

}  // namespace anfora::driver
