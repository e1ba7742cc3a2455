// The optimizer as a named list of passes with the reasons for their order.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "passes/pass.h"

namespace anfora::pipeline {

struct OptimizeOptions {
  std::vector<const passes::Pass*> only;  // these passes instead of all, in this order
  passes::PassOptions passes;
  bool for_storage = true;  // the result is written to a file: what it takes there counts
  bool outline = false;     // … and so do repeated layers, which become functions; what came as functions always does
  bool for_onnxruntime = false;       // … for ONNX Runtime, which has operators of its own
  bool verify = false;                // the verifier around every pass
  std::filesystem::path save_graphs;  // a folder for the module after each stage, see GraphSaver; empty: none
  bool keep_remarks = false;
  // Asked before each run of a pass, with the module that it is to change; false ends the optimization there.
  std::function<bool(const passes::Pass& pass, const ir::Module& before, const passes::PassOptions& options)>
      allow_pass;
  // Told of each stage as it ends, for progress.
  std::function<void(std::string_view pass, size_t round)> on_stage;
};

// What one pass did over all rounds.
struct PassReport {
  std::string_view name, doc, note;  // as passes::Pass has them
  int64_t nodes_removed = 0;         // operator applications before minus after; negative when it added some
  size_t changes = 0;
  double seconds = 0;
};

struct OptimizeReport {
  size_t nodes_before = 0, nodes_after = 0;
  size_t rounds = 0;
  bool at_fixpoint = true;  // false: the bound on rounds was hit
  std::vector<PassReport> passes;
  rewrite::Remarks remarks;
};

// All passes that can be run by name.
std::span<const passes::Pass* const> all_passes();
const passes::Pass* find_pass(std::string_view name);  // null when there is none
// Runs one pass on a module, which is typed before and after. Returns the number of changes.
size_t run_pass(const passes::Pass& pass, ir::Module& module, const passes::PassOptions& options = {});

// The canonicalizing pipeline, to a fixpoint. Types are inferred here.
OptimizeReport optimize(ir::Module& module, const OptimizeOptions& options = {});

// Rewrites operators of ONNX Runtime (domain com.microsoft) into ONNX's, as far as it is known how. Before anything runs, and
// where a model shall run elsewhere; the optimizer itself leaves them alone, for ONNX Runtime runs them faster than what they
// stand for. Returns how many there were.
size_t expand(ir::Module& module);
// Whether there are any.
bool has_expansions(const ir::Module& module);
// Attention as the products and the softmax that it is made of, before what is to run is optimized. Returns how many there were.
size_t split_attention(ir::Module& module);

// For execution on this machine: layouts, epilogues. Run it after optimize(); what it leaves is not ONNX any more.
void lower(ir::Module& module, rewrite::Promise math = rewrite::Promise::Real, passes::Evaluator evaluate = nullptr);

}  // namespace anfora::pipeline
