// Runs the passes of a pipeline (pipelines.h), times them, and reports.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "passes/pass.h"
#include "pipeline/pipelines.h"
#include "pipeline/save_graphs.h"

namespace anfora::pipeline {

struct OptimizeOptions {
  const Pipeline* pipeline = &kStore;
  // These passes instead, in this order: neighbours that run to a fixpoint in a pipeline do so here, others run once.
  std::vector<const passes::Pass*> only;
  passes::PassOptions passes;
  bool expand = false;                // operators of ONNX Runtime first of all, see pipeline/expand.h
  bool verify = false;                // the verifier around every pass; so it is, too, where ANFORA_VERIFY is set
  std::filesystem::path save_graphs;  // a folder for the module after each stage, see GraphSaver; empty: none
  std::vector<TextStage> stages_before;  // which come there first
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

// Runs one pass on a module, which is typed before and after. Returns the number of changes.
size_t run_pass(const passes::Pass& pass, ir::Module& module, const passes::PassOptions& options = {});
inline size_t run_pass(std::string_view name, ir::Module& module, const passes::PassOptions& options = {}) {
  return run_pass(get_pass(name), module, options);
}

// The pipeline of the options. Types are inferred here.
OptimizeReport optimize(ir::Module& module, const OptimizeOptions& options = {});

}  // namespace anfora::pipeline
