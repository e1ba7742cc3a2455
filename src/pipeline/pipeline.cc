#include "pipeline/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "analysis/verify_types.h"
#include "anfora/error.h"
#include "ir/verify.h"
#include "passes/einsum.h"
#include "passes/outline.h"
#include "pipeline/save_graphs.h"
#include "pipeline/undo.h"
#include "support/cancellation.h"
#include "support/function_ref.h"

namespace anfora::pipeline {

using passes::Pass;

namespace {

// Rounds of the whole list. Each round but the last must have changed something; real models need two or three.
constexpr size_t kMostRounds = 64;

constexpr const Pass* kPasses[] = {
    &passes::kInline,   &passes::kSignatures,   &passes::kRecurrence, &passes::kLoops,
    &passes::kBranches, &passes::kCanonicalize, &passes::kFold,       &passes::kSimplify,
    &passes::kLayers,   &passes::kFoldWeights,  &passes::kMerge,      &passes::kDropDead,
};

// After widening: weights in f32, each conversion once.
constexpr const Pass* kAfterWidening[] = {&passes::kFold, &passes::kMerge, &passes::kDropDead};

// Once each, in this order. The layout pass leaves dead nodes and transposes that cancel or fold, the rules arithmetic of
// constants; an epilogue is fused only where nobody else uses the value in between, not even a dead node. What is computed again
// is decided by the final steps.
constexpr const Pass* kLowering[] = {
    &passes::kLayout,   &passes::kFold,     &passes::kSimplify, &passes::kFold,          &passes::kMerge,
    &passes::kDropDead, &passes::kEpilogue, &passes::kDropDead, &passes::kRematerialize,
};

// At the end, for that target: its operators, and what making them has left to fold and to cancel.
constexpr const Pass* kForOnnxRuntime[] = {
    &passes::kOnnxRuntime, &passes::kFold, &passes::kSimplify, &passes::kMerge, &passes::kDropDead,
};

// Behind the rounds, where the result is stored, in this order. They take more than a PassContext, and are no passes therefore.
constexpr PassReport kCaches{"caches", "KV-cache fusion", "keys and values appended inside their Attention"},
    kParallel{"parallel", "horizontal fusion", "products of one value become one product"},
    kSplit{"split", "slices to Split", "slices that tile an axis become one Split"},
    kEinsum{"einsum", "Einsum restored", "where its parts did not pay"},
    kGenerate{"generate", "generated constants", "stored as what computes them, where that is smaller"},
    kOutline{"outline", "outlining", "repeated code becomes functions that are called"};

struct Constraint {
  std::string_view before, after, reason;
};
constexpr Constraint kOrder[] = {
    {"inline", "fold", "a callee's constants are known only in its caller"},
    {"inline", "signatures", "what is called once is better inlined"},
    {"signatures", "loops", "what a loop passes on to itself is invariant once it is captured"},
    {"recurrence", "loops", "a loop that is written out is no layer any more"},
    {"loops", "fold", "indices of iterations in a row are constants"},
    {"branches", "fold", "a condition is a constant in the branch that it chooses"},
    {"signatures", "fold", "constants that a function is always called with are known inside"},
    {"signatures", "dce", "parameters that nobody reads any more, and their arguments, are dead"},
    {"inline", "canonicalize", "ranks are known only where a function is called"},
    {"canonicalize", "simplify", "rules are written for canonical forms"},
    {"fold", "simplify", "no-ops show by their constant operands"},
    {"simplify", "layers", "what reads a layer is canonical then"},
    {"simplify", "weights", "an Identity between a convolution and its scale hides the pair"},
    {"weights", "cse", "merging two equal convolutions gives them a second user each"},
    {"cse", "dce", "merging leaves applications without users"},
};

void check_order() {
  auto position = [](std::string_view name) {
    return std::ranges::find(kPasses, name, [](const Pass* p) { return p->name; }) - std::begin(kPasses);
  };
  for (const Constraint& c : kOrder) {
    if (position(c.before) >= position(c.after)) {
      throw Error(ErrorCode::Internal, fmt::format("pass {} must run before {}: {}", c.before, c.after, c.reason));
    }
  }
}

}  // namespace

std::span<const Pass* const> all_passes() { return kPasses; }

const Pass* find_pass(std::string_view name) {
  auto find_in = [&](std::span<const Pass* const> list) {
    auto found = std::ranges::find(list, name, [](const Pass* p) { return p->name; });
    return found == list.end() ? nullptr : *found;
  };
  const Pass* pass = find_in(kPasses);
  if (name == passes::kWiden.name) return &passes::kWiden;
  if (name == passes::kWidenSingle.name) return &passes::kWidenSingle;
  if (name == passes::kExpand.name) return &passes::kExpand;
  if (name == passes::kAttention.name) return &passes::kAttention;
  if (name == passes::kOnnxRuntime.name) return &passes::kOnnxRuntime;
  return pass ? pass : find_in(kLowering);
}

size_t run_pass(const Pass& pass, ir::Module& module, const passes::PassOptions& options) {
  rewrite::Remarks remarks;
  for (Undo undo(module);;) {
    passes::PassContext context(module, remarks, options);
    context.inference.run();
    if (!undo.prepare(pass, context)) return 0;
    size_t changes = pass.run(context);
    try {
      context.inference.run();
      return changes;
    } catch (const Error& error) {
      if (!undo.take_back(pass, context.inference, error)) throw;
    }
  }
}

namespace {

bool any_operator(const ir::Module& module, bool (*is_meant)(const ir::Operator&)) {
  for (const ir::Graph* graph : module.graphs()) {
    for (const ir::Apply* node = graph->first_node(); node; node = node->next_in_graph()) {
      if (node->primitive() == ir::Primitive::Operation && is_meant(node->op())) return true;
    }
  }
  return false;
}

}  // namespace

bool has_expansions(const ir::Module& module) {
  return any_operator(module,
                      [](const ir::Operator& op) { return op.known && op.domain.starts_with("com.microsoft"); });
}

size_t expand(ir::Module& module) { return has_expansions(module) ? run_pass(passes::kExpand, module) : 0; }

size_t split_attention(ir::Module& module) {
  bool any = any_operator(module, [](const ir::Operator& op) { return op.qualified == "Attention"; });
  return any ? run_pass(passes::kAttention, module) : 0;
}

void lower(ir::Module& module, rewrite::Promise math, passes::Evaluator evaluate) {
  passes::PassOptions options;
  options.evaluate = std::move(evaluate);
  options.math = math;
  options.fold_limit = std::numeric_limits<int64_t>::max() / 4;  // nothing is stored
  options.fold_transposed_weights = false;
  options.fold_dequantized = true;
  options.rules = passes::lowering_rules(module.context());
  for (Undo undo(module);;) {
    rewrite::Remarks remarks;
    passes::PassContext context(module, remarks, options);
    context.inference.run();
    const Pass* running = nullptr;
    auto run = [&](const Pass* pass) {
      running = pass;
      bool changed = undo.prepare(*pass, context) && pass->run(context) > 0;
      if (changed) context.inference.run();
      return changed;
    };
    try {
      if (run(&passes::kWiden)) std::ranges::for_each(kAfterWidening, run);
      std::ranges::for_each(kLowering, run);
      return;
    } catch (const Error& error) {
      if (!running || !undo.take_back(*running, context.inference, error)) throw;
    }
  }
}

namespace {

// The rounds of passes on one module.
class Optimization {
 public:
  Optimization(ir::Module& module, const OptimizeOptions& options)
      : module_(module),
        options_(options),
        pass_options_(options.passes),
        passes_(std::begin(kPasses), std::end(kPasses)),
        first_id_(module.next_id()) {
    // ONNX Runtime computes the parts of one faster.
    if (options.for_storage && !options.for_onnxruntime) einsums_ = passes::places_of_einsums(module);
    if (options.for_storage) functions_ = passes::origins_of_functions(module);
    const bool saves = !options.save_graphs.empty();
    report_.remarks = rewrite::Remarks(options.keep_remarks || saves);
    if (!options.only.empty()) passes_ = options.only;
    idle_.assign(passes_.size(), SIZE_MAX);
    for (const Pass* pass : passes_) report_.passes.push_back({pass->name, pass->doc, pass->note});
    if (options.for_onnxruntime) {
      pass_options_.has_operator = [&standard = options.passes.has_operator](const ir::Apply& node) {
        return !standard || standard(node) || passes::has_onnxruntime_operator(node);
      };
    }
    if (!pass_options_.rules) pass_options_.rules = passes::standard_rules(module.context());
    if (!pass_options_.fold_budget) pass_options_.fold_budget = std::make_shared<analysis::FoldBudget>(module);
    pass_options_.folds = std::ranges::find(passes_, &passes::kFold) != passes_.end();
    if (saves) saver_.emplace(options.save_graphs, report_.remarks, *pass_options_.rules);
  }

  OptimizeReport run() {
    report_.nodes_before = module_.num_operations();
    run_rounds();
    const bool is_whole = options_.only.empty() && !stopped_;
    if (options_.for_onnxruntime && is_whole) write_for_onnxruntime();
    if (options_.for_storage && is_whole) {
      if (run_final(kCaches, [&] { return passes::append_to_caches(module_, pass_options_, report_.remarks); })) {
        ++changing_;
        run_rounds();  // heads that are split inside leave views
      }
      if (run_final(kParallel, [&] { return passes::merge_parallel(module_, pass_options_, report_.remarks); })) {
        ++changing_;
        run_rounds();  // what several products read one does now, and it may go into its weights
      }
      run_final(kSplit, [&] { return passes::split_sliced(module_, report_.remarks); });
      run_final(kEinsum, [&] { return passes::rejoin_einsums(module_, einsums_, pass_options_, report_.remarks); });
      run_final(kGenerate,
                [&] { return passes::generate_constants(module_, first_id_, pass_options_, report_.remarks); });
      run_final(kOutline, [&] { return passes::outline(module_, functions_, options_.outline, report_.remarks); });
    }
    if (saver_) saver_->finish(module_);
    report_.nodes_after = module_.num_operations();
    return std::move(report_);
  }

 private:
  void end_stage(std::string_view stage, std::string_view doc = {}, size_t round = 0) {
    if (options_.verify) ir::verify_or_throw(module_);
    if (saver_) saver_->save(module_, stage, doc, round);
  }

  // One of the final steps, with an entry in the report. Whether it changed something.
  bool run_final(const PassReport& step, FunctionRef<size_t()> run) {
    auto start = std::chrono::steady_clock::now();
    size_t before = module_.num_operations();
    PassReport entry = step;
    entry.changes = run();
    entry.nodes_removed = static_cast<int64_t>(before) - static_cast<int64_t>(module_.num_operations());
    if (entry.changes > 0) end_stage(entry.name, entry.doc);
    entry.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    report_.passes.push_back(entry);
    return entry.changes > 0;
  }

  // Until nothing changes.
  void run_rounds() {
    for (bool changed = true; changed && !stopped_;) {
      if (report_.rounds == kMostRounds) {
        report_.at_fixpoint = false;
        break;
      }
      ++report_.rounds;
      changed = run_round();
    }
  }

  // Whether something changed.
  bool run_round() {
    Undo undo(module_);
    std::optional<OptimizeReport> before;
    if (undo.is_possible()) before = report_;
    const size_t stages = saver_ ? saver_->num_stages() : 0;
    int64_t* fuel = pass_options_.fuel;
    const int64_t fuel_before = fuel ? *fuel : 0;
    for (;;) {
      passes::PassContext context(module_, report_.remarks, pass_options_);
      const Pass* running = nullptr;
      try {
        return run_passes(context, undo, running);
      } catch (const Error& error) {
        if (!running || !undo.take_back(*running, context.inference, error)) throw;
      }
      report_ = *before;
      if (saver_) saver_->take_back(stages);
      if (fuel) *fuel = fuel_before;
      ++changing_;
    }
  }

  bool run_passes(passes::PassContext& context, const Undo& undo, const Pass*& running) {
    bool changed = false;
    context.inference.run();
    if (report_.rounds == 1) end_stage("import");
    for (size_t i = 0; i < passes_.size(); ++i) {
      check_cancelled();
      const Pass& pass = *passes_[i];
      if (idle_[i] == changing_) continue;  // nothing has changed since
      stopped_ = options_.allow_pass && !options_.allow_pass(pass, module_, pass_options_);
      if (stopped_) break;
      if (!undo.prepare(pass, context)) continue;
      running = &pass;
      if (run_one(pass, context, report_.passes[i], report_.rounds)) {
        changed = true;
        ++changing_;
      } else {
        idle_[i] = changing_;
      }
      if (options_.on_stage) options_.on_stage(pass.name, report_.rounds);
    }
    return changed;
  }

  // Whether the pass changed something.
  bool run_one(const Pass& pass, passes::PassContext& context, PassReport& entry, size_t round) {
    auto start = std::chrono::steady_clock::now();
    size_t before = module_.num_operations();
    size_t changes = pass.run(context);
    entry.changes += changes;
    entry.nodes_removed += static_cast<int64_t>(before) - static_cast<int64_t>(module_.num_operations());
    if (changes > 0) {
      std::vector<ir::Violation> violations;  // by what the pass itself left
      if (options_.verify) {
        ir::verify_or_throw(module_);
        violations = analysis::verify_types(module_);
      }
      context.inference.run();  // types sharpen downstream of what changed
      ir::throw_if_any(violations);
      end_stage(pass.name, pass.doc, round);
    }
    entry.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return changes > 0;
  }

  void write_for_onnxruntime() {
    pass_options_.has_operator = options_.passes.has_operator;
    passes::PassContext context(module_, report_.remarks, pass_options_);
    context.inference.run();
    for (const Pass* pass : kForOnnxRuntime) {
      auto entry = std::ranges::find(report_.passes, pass->name, &PassReport::name);
      if (entry == report_.passes.end()) entry = report_.passes.insert(entry, {pass->name, pass->doc, pass->note});
      run_one(*pass, context, *entry, 0);
    }
  }

  ir::Module& module_;
  const OptimizeOptions& options_;
  passes::PassOptions pass_options_;
  std::vector<const Pass*> passes_;
  const uint32_t first_id_;  // of nodes that were made since
  passes::EinsumPlaces einsums_;
  passes::FunctionOrigins functions_;
  OptimizeReport report_;
  std::optional<GraphSaver> saver_;
  bool stopped_ = false;
  size_t changing_ = 0;       // how many runs of passes have changed something
  std::vector<size_t> idle_;  // by pass: `changing_` when it last found nothing to do
};

}  // namespace

OptimizeReport optimize(ir::Module& module, const OptimizeOptions& options) {
  check_order();
  return Optimization(module, options).run();
}

}  // namespace anfora::pipeline
