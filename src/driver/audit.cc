#include "driver/audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "anfora/error.h"
#include "driver/agreement.h"
#include "driver/model.h"
#include "driver/reduce.h"
#include "ir/clone.h"

namespace anfora::driver {
namespace {

using namespace ir;
using passes::Pass;
using passes::PassOptions;

// What differs in the results of two modules on the same inputs; empty: nothing.
std::string difference(const Module& before, const Module& after, const PassOptions& options,
                       const AuditOptions& audit) {
  runtime::Executable first = compile_as_is(before), second = compile_as_is(after);
  AgreementOptions how{.runs = audit.runs, .seed = audit.inputs.seed, .promise = options.math, .made_up = audit.inputs};
  if (!audit.given.empty()) how.given = in_order(before, audit.given);
  if (options.math == rewrite::Promise::Exact) how.tolerance = Tolerance{};
  try {
    const Agreement agreement = check_agreement(before, first, after, second, how);
    return agreement.same ? "" : agreement.message;
  } catch (const Error&) {
    return "";  // a part of the module that the given inputs are not for
  }
}

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// The module after the pass, with at most `fuel` rewrites by rules; null where it changes nothing.
std::unique_ptr<Module> after(const Pass& pass, const Module& before, PassOptions options, int64_t fuel,
                              rewrite::Remarks& remarks) {
  std::unique_ptr<Module> module = snapshot(before);  // with the ids that the origins know
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
  rewrite::Remarks all(true);
  std::unique_ptr<Module> changed = after(pass, before, options, kUnlimited, all);
  if (!changed) return std::nullopt;
  std::string message = difference(before, *changed, options, audit);
  if (message.empty()) return std::nullopt;

  auto changes = [&](int64_t fuel, rewrite::Remarks& remarks) {
    std::unique_ptr<Module> module = after(pass, before, options, fuel, remarks);
    return module ? difference(before, *module, options, audit) : "";
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
