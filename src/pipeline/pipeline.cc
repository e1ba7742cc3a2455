#include "pipeline/pipeline.h"

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

#include "analysis/verify_types.h"
#include "anfora/error.h"
#include "ir/verify.h"
#include "passes/origins.h"
#include "pipeline/save_graphs.h"
#include "support/cancellation.h"

namespace anfora::pipeline {

using passes::Pass;

namespace {

// Rounds of a stage that runs to a fixpoint. Each but the last must have changed something; real models need two or three.
constexpr size_t kMostRounds = 64;
// Of what is not stored, folding may make constants of any size.
constexpr int64_t kAnySize = std::numeric_limits<int64_t>::max() / 4;

// One run of a pipeline on a module.
class Optimization {
 public:
  Optimization(ir::Module& module, const OptimizeOptions& options)
      : module_(module), options_(options), pass_options_(options.passes) {
    const Pipeline& pipeline = *options.pipeline;
    if (pipeline.is_stored) pass_options_.origins = std::make_shared<passes::Origins>(passes::origins_of(module));
    pass_options_.folds = options.only.empty() || std::ranges::count(options.only, &get_pass("fold")) > 0;
    if (!pipeline.is_stored) {
      pass_options_.fold_limit = kAnySize;
      pass_options_.fold_transposed_weights = false;
      pass_options_.fold_dequantized = passes::PassOptions::FoldDequantized::ButFactors;
    }
    report_.remarks = rewrite::Remarks(options.keep_remarks || !options.save_graphs.empty());
    rules_ = options.passes.rules ? options.passes.rules : passes::standard_rules();
    if (!options.save_graphs.empty()) saver_.emplace(options.save_graphs, report_.remarks, *rules_);
    for (size_t i = 0; saver_ && i < options.stages_before.size(); ++i) saver_->save(options.stages_before[i]);
    set_operators(pipeline.expresses);
  }

  OptimizeReport run() {
    report_.nodes_before = module_.num_operations();
    const Pass* const expand_alone[] = {&get_pass("expand")};
    if (options_.expand) run_passes_of({.name = "expand", .passes = expand_alone});
    if (options_.only.empty()) {
      for (const Stage* stage : options_.pipeline->stages) run_stage(*stage);
    } else {
      run_only();
    }
    if (saver_) saver_->finish(module_);
    report_.nodes_after = module_.num_operations();
    return std::move(report_);
  }

 private:
  void set_operators(bool (*expresses)(const ir::Apply&)) {
    auto avoids = options_.pipeline->avoids;
    pass_options_.has_operator = options_.passes.has_operator;
    if (!expresses && !avoids) return;
    pass_options_.has_operator = [&has = options_.passes.has_operator, expresses, avoids](const ir::Apply& node) {
      return !(avoids && avoids(node)) && (!has || has(node) || (expresses && expresses(node)));
    };
  }

  void run_only() {
    for (auto first = options_.only.begin(); first != options_.only.end();) {
      const bool repeats = is_canonicalizing(**first);
      auto last = repeats ? std::find_if_not(first, options_.only.end(), [](const Pass* p) { return is_canonicalizing(*p); })
                          : first + 1;
      run_stage({.name = "passes", .passes = {first, last}, .to_fixpoint = repeats});
      first = last;
    }
  }

  void run_stage(const Stage& stage) {
    if (stopped_) return;
    if (stage.is_written) set_operators(nullptr);
    if (stage.folds_dequantized) pass_options_.fold_dequantized = passes::PassOptions::FoldDequantized::All;
    if (stage.folds_conversions) pass_options_.reads_weights = nullptr;
    pass_options_.rules = stage.rules ? stage.rules() : rules_;
    if (!options_.passes.fold_budget) pass_options_.fold_budget = std::make_shared<analysis::FoldBudget>(module_);
    if (report_.passes.empty() || stage.to_fixpoint) {
      for (const Pass* pass : stage.passes) entry_of(*pass);
    }
    idle_.clear();
    const size_t changes = changes_;
    if (!stage.to_fixpoint) run_passes_of(stage);
    for (bool changed = stage.to_fixpoint; changed && !stopped_;) {
      if (report_.rounds == kMostRounds) {
        report_.at_fixpoint = false;
        break;
      }
      ++report_.rounds;
      changed = run_passes_of(stage);
    }
    if (stage.on_change && changes_ != changes) run_stage(*stage.on_change);
  }

  // Each pass of the list once. Whether something changed.
  bool run_passes_of(const Stage& stage) {
    passes::PassContext context(module_, report_.remarks, pass_options_);
    bool changed = false;
    context.inference.run();
    const size_t round = stage.to_fixpoint ? report_.rounds : 0;
    if (!std::exchange(is_begun_, true)) end_step("import");
    for (const Pass* pass : stage.passes) {
      check_cancelled();
      auto idle = idle_.find(pass);
      if (idle != idle_.end() && stage.to_fixpoint && idle->second == changes_) continue;  // nothing has changed since
      stopped_ = options_.allow_pass && !options_.allow_pass(*pass, module_, pass_options_);
      if (stopped_) break;
      const bool changes = run_one(*pass, context, round);
      if (!changes) idle_[pass] = changes_;
      changes_ += changes;
      changed = changed || changes;
      if (options_.on_stage) options_.on_stage(pass->name, round);
    }
    return changed;
  }

  PassReport& entry_of(const Pass& pass) {
    auto entry = std::ranges::find(report_.passes, pass.name, &PassReport::name);
    if (entry == report_.passes.end()) entry = report_.passes.insert(entry, {pass.name, pass.doc, pass.note});
    return *entry;
  }

  // Whether the pass changed something.
  bool run_one(const Pass& pass, passes::PassContext& context, size_t round) {
    auto start = std::chrono::steady_clock::now();
    size_t before = module_.num_operations();
    size_t changes = pass.run(context);
    PassReport& entry = entry_of(pass);
    entry.changes += changes;
    entry.nodes_removed += static_cast<int64_t>(before) - static_cast<int64_t>(module_.num_operations());
    if (changes > 0) {
      module_.erase_unused_constants_at_times();
      std::vector<ir::Violation> violations;  // by what the pass itself left
      if (is_verifying_) {
        ir::verify_or_throw(module_);
        violations = analysis::verify_types(module_);
      }
      context.inference.run();  // types sharpen downstream of what changed
      ir::throw_if_any(violations);
      end_step(pass.name, pass.doc, round);
    }
    entry.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return changes > 0;
  }

  void end_step(std::string_view step, std::string_view doc = {}, size_t round = 0) {
    if (is_verifying_) ir::verify_or_throw(module_);
    if (saver_) saver_->save(module_, step, doc, round);
  }

  ir::Module& module_;
  const OptimizeOptions& options_;
  passes::PassOptions pass_options_;
  std::shared_ptr<const rewrite::RuleSet> rules_;
  OptimizeReport report_;
  std::optional<GraphSaver> saver_;
  const bool is_verifying_ = options_.verify || std::getenv("ANFORA_VERIFY");
  bool is_begun_ = false, stopped_ = false;
  size_t changes_ = 0;                                         // how many runs of passes have changed something
  boost::unordered_flat_map<const Pass*, size_t> idle_;  // `changes_` when a pass last found nothing to do
};

}  // namespace

OptimizeReport optimize(ir::Module& module, const OptimizeOptions& options) {
  check_order(*options.pipeline);
  return Optimization(module, options).run();
}

size_t run_pass(const Pass& pass, ir::Module& module, const passes::PassOptions& options) {
  rewrite::Remarks remarks;
  passes::PassContext context(module, remarks, options);
  context.inference.run();
  size_t changes = pass.run(context);
  context.inference.run();
  return changes;
}

}  // namespace anfora::pipeline
