#include "pipeline/pipelines.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "anfora/error.h"

// One file or folder each, src/passes/….
namespace anfora::passes {
extern const Pass kAttention, kBranches, kCaches, kCanonicalize, kContraction, kCse, kDce, kDecompose, kDifferentiate, kEinsum, kEpilogue, kExpand, kFold, kGenerate, kGradientKernels, kGroup, kInline,
    kLambdaLift, kLayers, kLayout, kLoops, kNarrow, kNarrowFactors, kNormalizations, kOnnxRuntime, kOutline, kParallel, kPixels, kPrologue, kQuantized, kRecurrence, kRematerialize, kSignatures, kSimplify, kSingleExit, kSplit, kWeights,
    kWiden, kWidenSingle;
}

namespace anfora::pipeline {

using passes::Pass;

namespace {

// Stages ------------------------------------------------------------------------------------------------------------------

constexpr const Pass* kSimplifyPasses[] = {
    &passes::kInline,   &passes::kSignatures,   &passes::kRecurrence, &passes::kLoops,
    &passes::kBranches, &passes::kCanonicalize, &passes::kFold,       &passes::kSimplify,
    &passes::kLayers,   &passes::kWeights,  &passes::kCse,      &passes::kDce,
};
constexpr Stage kSimplify{.name = "simplify", .passes = kSimplifyPasses, .to_fixpoint = true};

// What ONNX's Loop can say.
constexpr const Pass* kLoopPasses[] = {&passes::kSingleExit};
constexpr Stage kPrepareLoops{.name = "loops", .passes = kLoopPasses};

// Heads that are split inside leave views behind.
constexpr const Pass* kCachePasses[] = {&passes::kCaches};
constexpr Stage kAppendToCaches{.name = "caches", .passes = kCachePasses, .on_change = &kSimplify};

// What several products read one does now, and it may go into its weights.
constexpr const Pass* kParallelPasses[] = {&passes::kParallel};
constexpr Stage kMergeParallel{.name = "parallel", .passes = kParallelPasses, .on_change = &kSimplify};

constexpr const Pass* kFinishPasses[] = {&passes::kSplit, &passes::kEinsum, &passes::kGenerate, &passes::kOutline};
constexpr Stage kFinish{.name = "finish", .passes = kFinishPasses};

// ONNX Runtime computes the parts of an Einsum faster.
constexpr const Pass* kFinishForOnnxRuntimePasses[] = {&passes::kSplit, &passes::kGenerate, &passes::kOutline};
constexpr Stage kFinishForOnnxRuntime{.name = "finish", .passes = kFinishForOnnxRuntimePasses};

// Operators of ONNX Runtime, and what making them has left to fold and to cancel.
constexpr const Pass* kOnnxRuntimePasses[] = {
    &passes::kOnnxRuntime, &passes::kFold, &passes::kSimplify, &passes::kCse, &passes::kDce,
};
constexpr Stage kWriteForOnnxRuntime{.name = "onnxruntime", .passes = kOnnxRuntimePasses, .is_written = true};

// What nothing but its parts says how to run.
constexpr const Pass* kExpandPasses[] = {&passes::kExpand, &passes::kAttention};
constexpr Stage kExpand{.name = "expand", .passes = kExpandPasses};

// Shapes are folded, and transposes go into the products.
constexpr const Pass* kContractionPasses[] = {&passes::kContraction};
constexpr Stage kContraction{.name = "products", .passes = kContractionPasses, .on_change = &kSimplify};

// What the operators of differentiation read is then not computed any more.
constexpr const Pass* kGradientKernelPasses[] = {&passes::kGradientKernels};
constexpr Stage kGradientKernels{.name = "gradients", .passes = kGradientKernelPasses, .on_change = &kSimplify};

// Weights in f32, each conversion once.
constexpr const Pass* kAfterWidening[] = {&passes::kFold, &passes::kCse, &passes::kDce};
constexpr Stage kFoldWidened{.name = "widened", .passes = kAfterWidening};
constexpr const Pass* kWidenPasses[] = {&passes::kWiden};
constexpr Stage kWiden{.name = "widen", .passes = kWidenPasses, .on_change = &kFoldWidened};

// Operators that quantize become parts before layouts are chosen, and parts become products of integers behind. The layout pass leaves dead nodes and transposes
// that cancel or fold, the rules arithmetic of constants; transposes are merged, and an epilogue is fused, only where nobody else uses the value in between, not
// even a dead node.
constexpr const Pass* kLoweringPasses[] = {
    &passes::kNarrowFactors, &passes::kQuantized, &passes::kLayout, &passes::kQuantized, &passes::kDce,      &passes::kFold, &passes::kSimplify,
    &passes::kFold,          &passes::kCse,       &passes::kDce,    &passes::kEpilogue,  &passes::kPrologue, &passes::kDce,
};
constexpr Stage kLowering{.name = "lower", .passes = kLoweringPasses, .rules = passes::lowering_rules, .folds_dequantized = true};

// Weights are as the kernels read them. What is computed again is decided at the end.
constexpr const Pass* kGroupingPasses[] = {&passes::kNormalizations, &passes::kPixels, &passes::kFold, &passes::kRematerialize, &passes::kGroup};
constexpr Stage kGrouping{.name = "group", .passes = kGroupingPasses, .folds_conversions = true};

// What has no gradient itself. Attention is decomposed as other operators are.
constexpr const Pass* kDecomposePasses[] = {&passes::kExpand, &passes::kDecompose};
constexpr Stage kDecompose{.name = "decompose", .passes = kDecomposePasses};

constexpr Stage kSimplifyDifferentiable{
    .name = "simplify", .passes = kSimplifyPasses, .to_fixpoint = true, .rules = passes::differentiable_rules};

// What is differentiated is small, and consists of operators that have a gradient.
constexpr const Pass* kDifferentiatePasses[] = {&passes::kDifferentiate};
constexpr Stage kDifferentiate{.name = "differentiate", .passes = kDifferentiatePasses};

// Pipelines ---------------------------------------------------------------------------------------------------------------

constexpr const Stage* kStoreStages[] = {&kPrepareLoops, &kSimplify, &kAppendToCaches, &kMergeParallel, &kFinish};
constexpr const Stage* kOnnxRuntimeStages[] = {&kPrepareLoops, &kSimplify, &kWriteForOnnxRuntime, &kAppendToCaches, &kMergeParallel,
                                               &kFinishForOnnxRuntime};
constexpr const Stage* kExecuteStages[] = {&kExpand, &kSimplify, &kContraction, &kGradientKernels, &kWiden, &kLowering, &kGrouping};
constexpr const Stage* kLowerStages[] = {&kWiden, &kLowering, &kGrouping};
constexpr const Stage* kGradientStages[] = {&kDecompose, &kPrepareLoops, &kSimplifyDifferentiable, &kDifferentiate};

// The parts of rotations, and of attention that is not generated code, are faster than their kernels.
bool has_faster_parts(const ir::Apply& node) {
  return node.is("RotaryEmbedding") || (node.is("Attention") && !passes::has_attention_kernel(node));
}

constexpr Constraint kOrder[] = {
    {"expand", "attention", "operators of ONNX Runtime expand to Attention"},
    {"attention", "simplify", "the parts are simplified as any other code"},
    {"expand", "decompose", "operators of ONNX Runtime expand to layers"},
    {"decompose", "simplify", "the parts are simplified as any other code"},
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
    {"simplify", "caches", "rules know the attention of one result, and make it first"},
    {"simplify", "parallel", "rules know the product that each was, and what goes into its weights"},
    {"caches", "parallel", "products in front of an Attention are packed once the heads are split inside"},
    {"parallel", "split", "slices of merged products tile them"},
    {"simplify", "einsum", "what of the parts pays is known when they are simple"},
    {"simplify", "contraction", "an Einsum that is one product and views becomes that"},
    {"simplify", "generate", "folding makes the constants, and would make them again"},
    {"generate", "outline", "a constant that is made is code that may repeat"},
    {"onnxruntime", "fold", "operands of its operators are computed of constants"},
    {"widen", "layout", "layouts are chosen for the types that kernels compute in"},
    {"widen", "narrow-factors", "a model of half precision has such weights already"},
    {"narrow-factors", "prologue", "a product takes the conversion of its weights in"},
    {"layout", "simplify", "transposes around a layout cancel"},
    {"layout", "quantized", "convolutions of integers have their channels last"},
    {"dce", "epilogue", "a dead user keeps an epilogue from its product"},
    {"epilogue", "prologue", "an expansion goes into its depthwise convolution, and what a convolution takes is known"},
    {"prologue", "rematerialize", "what is made on the way is not kept"},
    {"prologue", "group", "what is made on the way is no group"},
    {"prologue", "normalizations", "a convolution reads a normalization as it is"},
    {"normalizations", "group", "the arithmetic joins groups"},
    {"epilogue", "pixels", "what a convolution takes in stands next to it"},
    {"prologue", "pixels", "rules know the convolution that it was"},
    {"epilogue", "rematerialize", "what is fused is not kept"},
    {"epilogue", "group", "what a product takes is not written to memory at all"},
    {"rematerialize", "group", "what is computed again may be so in the group that reads it"},
};

std::vector<const Pass*> flattened(const Pipeline& pipeline) {
  std::vector<const Pass*> list;
  for (const Stage* stage : pipeline.stages) list.insert(list.end(), stage->passes.begin(), stage->passes.end());
  return list;
}

// Also where one of the two does not occur.
bool keeps(const Constraint& constraint, std::span<const Pass* const> list) {
  auto before = std::ranges::find(list, constraint.before, &Pass::name);
  auto after = std::ranges::find(list.rbegin(), list.rend(), constraint.after, &Pass::name);
  if (before == list.end() || after == list.rend()) return true;
  return before < std::prev(after.base());
}

}  // namespace

const Pipeline kStore{.name = "onnx", .stages = kStoreStages};
const Pipeline kOnnxRuntime{
    .name = "onnxruntime", .stages = kOnnxRuntimeStages, .expresses = passes::has_onnxruntime_operator};
const Pipeline kExecute{.name = "execute", .stages = kExecuteStages, .is_stored = false, .avoids = has_faster_parts};
const Pipeline kGradient{
    .name = "gradient", .stages = kGradientStages, .is_stored = false, .avoids = passes::lacks_gradient};
const Pipeline kLower{.name = "lower", .stages = kLowerStages, .is_stored = false};

std::span<const Pipeline* const> all_pipelines() {
  static constexpr const Pipeline* kAll[] = {&kStore, &kOnnxRuntime, &kExecute, &kLower, &kGradient};
  return kAll;
}

std::span<const Constraint> order_of_passes() { return kOrder; }

std::span<const Pass* const> all_passes() {
  static const std::vector<const Pass*> kAll = [] {
    std::vector<const Pass*> all;
    for (const Pipeline* pipeline : all_pipelines()) {
      for (const Pass* pass : flattened(*pipeline)) {
        if (!std::ranges::count(all, pass)) all.push_back(pass);
      }
    }
    all.insert(all.end(), {&passes::kLambdaLift, &passes::kNarrow, &passes::kWidenSingle});
    return all;
  }();
  return kAll;
}

const Pass* find_pass(std::string_view name) {
  auto found = std::ranges::find(all_passes(), name, &Pass::name);
  return found == all_passes().end() ? nullptr : *found;
}

const Pass& get_pass(std::string_view name) {
  const Pass* pass = find_pass(name);
  if (!pass) throw Error(ErrorCode::Internal, fmt::format("there is no pass {}", name));
  return *pass;
}

bool is_canonicalizing(const Pass& pass) { return std::ranges::count(kSimplifyPasses, &pass) > 0; }

void check_order(const Pipeline& pipeline) {
  for (const Constraint& constraint : kOrder) {
    bool kept = keeps(constraint, flattened(pipeline));
    for (const Stage* stage : pipeline.stages) kept = kept && keeps(constraint, stage->passes);
    if (kept) continue;
    throw Error(ErrorCode::Internal, fmt::format("in the pipeline {}, pass {} must run before {}: {}", pipeline.name,
                                                 constraint.before, constraint.after, constraint.reason));
  }
}

}  // namespace anfora::pipeline
