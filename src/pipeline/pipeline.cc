#include "pipeline/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "analysis/verify_types.h"
#include "anfora/error.h"
#include "ir/verify.h"
#include "pipeline/save_graphs.h"

namespace anfora::pipeline {

using passes::Pass;

namespace {

// Rounds of the whole list. Each round but the last must have changed something; real models need two or three.
constexpr size_t kMostRounds = 64;

constexpr const Pass* kPasses[] = {
    &passes::kInline, &passes::kSignatures, &passes::kLoops,       &passes::kBranches, &passes::kCanonicalize,
    &passes::kFold,   &passes::kSimplify,   &passes::kFoldWeights, &passes::kMerge,    &passes::kDropDead,
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

struct Constraint {
  std::string_view before, after, reason;
};
constexpr Constraint kOrder[] = {
    {"inline", "fold", "a callee's constants are known only in its caller"},
    {"inline", "signatures", "what is called once is better inlined"},
    {"signatures", "loops", "what a loop passes on to itself is invariant once it is captured"},
    {"loops", "fold", "indices of iterations in a row are constants"},
    {"branches", "fold", "a condition is a constant in the branch that it chooses"},
    {"signatures", "fold", "constants that a function is always called with are known inside"},
    {"signatures", "dce", "parameters that nobody reads any more, and their arguments, are dead"},
    {"inline", "canonicalize", "ranks are known only where a function is called"},
    {"canonicalize", "simplify", "rules are written for canonical forms"},
    {"fold", "simplify", "no-ops show by their constant operands"},
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
  if (name == passes::kExpand.name) return &passes::kExpand;
  if (name == passes::kAttention.name) return &passes::kAttention;
  return pass ? pass : find_in(kLowering);
}

size_t run_pass(const Pass& pass, ir::Module& module, const passes::PassOptions& options) {
  rewrite::Remarks remarks;
  passes::PassContext context(module, remarks, options);
  context.inference.run();
  size_t changes = pass.run(context);
  analysis::infer_types(module);
  return changes;
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
  return any_operator(module, [](const ir::Operator& op) { return op.known && op.domain == "com.microsoft"; });
}

size_t expand(ir::Module& module) { return has_expansions(module) ? run_pass(passes::kExpand, module) : 0; }

size_t split_attention(ir::Module& module) {
  bool any = any_operator(module, [](const ir::Operator& op) { return op.qualified == "Attention"; });
  return any ? run_pass(passes::kAttention, module) : 0;
}

void lower(ir::Module& module, rewrite::Promise math) {
  rewrite::Remarks remarks;
  passes::PassOptions options;
  options.math = math;
  options.fold_limit = std::numeric_limits<int64_t>::max() / 4;  // nothing is stored
  options.fold_transposed_weights = false;
  options.rules = passes::lowering_rules(module.context());
  passes::PassContext context(module, remarks, options);
  context.inference.run();
  auto run = [&](const Pass* pass) {
    bool changed = pass->run(context) > 0;
    if (changed) context.inference.run();
    return changed;
  };
  if (run(&passes::kWiden)) std::ranges::for_each(kAfterWidening, run);
  std::ranges::for_each(kLowering, run);
}

OptimizeReport optimize(ir::Module& module, const OptimizeOptions& options) {
  check_order();
  const bool saves = !options.save_graphs.empty();
  OptimizeReport report{.remarks = rewrite::Remarks(options.keep_remarks || saves)};
  std::vector<const Pass*> list(std::begin(kPasses), std::end(kPasses));
  if (!options.only.empty()) list = options.only;
  for (const Pass* pass : list) report.passes.push_back({pass->name, pass->doc, pass->note});
  passes::PassOptions pass_options = options.passes;
  if (!pass_options.rules) pass_options.rules = passes::standard_rules(module.context());
  std::optional<GraphSaver> saver;
  if (saves) saver.emplace(options.save_graphs, report.remarks, *pass_options.rules);
  auto end_stage = [&](std::string_view stage, size_t round = 0) {
    if (options.verify) ir::verify_or_throw(module);
    if (saver) saver->save(module, stage, round);
  };
  report.nodes_before = module.num_operations();
  const uint32_t first_id = module.next_id();
  bool stopped = false;
  size_t changing = 0;                              // how many runs of passes have changed something
  std::vector<size_t> idle(list.size(), SIZE_MAX);  // by pass: `changing` when it last found nothing to do
  for (bool changed = true; changed && !stopped;) {
    if (report.rounds == kMostRounds) {
      report.at_fixpoint = false;
      break;
    }
    ++report.rounds;
    changed = false;
    passes::PassContext context(module, report.remarks, pass_options);
    context.inference.run();
    if (report.rounds == 1) end_stage("import");
    for (size_t i = 0; i < list.size(); ++i) {
      const Pass& pass = *list[i];
      if (idle[i] == changing) continue;  // nothing has changed since
      stopped = options.allow_pass && !options.allow_pass(pass, module, pass_options);
      if (stopped) break;
      auto start = std::chrono::steady_clock::now();
      size_t before = module.num_operations();
      size_t changes = pass.run(context);
      PassReport& entry = report.passes[i];
      entry.changes += changes;
      entry.nodes_removed += static_cast<int64_t>(before) - static_cast<int64_t>(module.num_operations());
      changed = changed || changes > 0;
      if (changes == 0) idle[i] = changing;
      if (changes > 0) {
        ++changing;
        if (options.verify) analysis::verify_typed_or_throw(module);  // what the pass itself left
        context.inference.run();                                      // types sharpen downstream of what changed
        end_stage(pass.name, report.rounds);
      }
      entry.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (options.on_stage) options.on_stage(pass.name, report.rounds);
    }
  }
  if (options.for_storage && options.only.empty() && !stopped) {
    if (passes::split_sliced(module, report.remarks) > 0) end_stage("split");
    if (passes::generate_constants(module, first_id, report.remarks) > 0) end_stage("generate");
  }
  if (saver) saver->finish(module);
  report.nodes_after = module.num_operations();
  return report;
}

}  // namespace anfora::pipeline
