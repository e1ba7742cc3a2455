// The lists of passes, by name. A pipeline is a list of stages, a stage a list of passes that run in this order: once, or again
// until none of them changes anything.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "passes/pass.h"

namespace anfora::pipeline {

struct Stage {
  std::string_view name;
  std::span<const passes::Pass* const> passes;
  bool to_fixpoint = false;
  // What runs behind it where a pass of the stage has changed something.
  const Stage* on_change = nullptr;
  // The rules of simplification, where they are not the standard ones.
  std::shared_ptr<const rewrite::RuleSet> (*rules)() = nullptr;
  // From here on only what the file or the kernels have may be made; before, also what a pass of this stage expresses by that
  // (Pipeline::expresses).
  bool is_written = false;
  // From here on all weights are dequantized that still are not multiplied as integers.
  bool folds_dequantized = false;
  // From here on all weights are converted that no kernel reads as they are (PassOptions::reads_weights).
  bool folds_conversions = false;
};

struct Pipeline {
  std::string_view name;
  std::span<const Stage* const> stages;
  // Whether the result is stored: what it takes in a file counts, and folding is bounded. Else kernels run it.
  bool is_stored = true;
  // Operators beside those that PassOptions::has_operator tells, which a later stage replaces. Null: none.
  bool (*expresses)(const ir::Apply& node) = nullptr;
  // Operators of ONNX that the optimizer does not make for it. Null: none.
  bool (*avoids)(const ir::Apply& node) = nullptr;
};

extern const Pipeline kStore;        // as ONNX, for any runtime
extern const Pipeline kOnnxRuntime;  // as ONNX for ONNX Runtime, with its own operators
extern const Pipeline kExecute;      // to run here, from what was read to what the kernels have
extern const Pipeline kLower;        // the end of it, on a module that is optimized
extern const Pipeline kGradient;     // to the gradients of a result, see passes/differentiate/; to be optimized

std::span<const Pipeline* const> all_pipelines();
// All passes that occur in a pipeline, each once, and those that checks alone run.
std::span<const passes::Pass* const> all_passes();
const passes::Pass* find_pass(std::string_view name);  // null when there is none
const passes::Pass& get_pass(std::string_view name);   // throws Internal when there is none
// Whether it is a pass that runs to a fixpoint with others, on what ONNX can express.
bool is_canonicalizing(const passes::Pass& pass);

// In a pipeline that has both, some run of `after` comes behind the first one of `before`.
struct Constraint {
  std::string_view before, after, reason;
};
std::span<const Constraint> order_of_passes();
// Throws Internal, with the reason, where a pipeline does not keep them.
void check_order(const Pipeline& pipeline);

}  // namespace anfora::pipeline
