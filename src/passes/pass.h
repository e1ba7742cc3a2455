// Passes: what the pipeline runs. A pass changes a module and keeps it typed and valid.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/folding.h"
#include "analysis/infer.h"
#include "rewrite/remarks.h"
#include "rewrite/compiled_rules.h"
#include "support/datum.h"

namespace anfora::passes {

// The results of an operator on data, see analysis::evaluate_operator.
using Evaluator = std::function<std::vector<Datum>(const ir::Operator& op, const AttributeSet& attributes,
                                                   std::span<const Datum> inputs, size_t num_outputs)>;

struct Origins;  // passes/origins.h

struct PassOptions {
  rewrite::Promise math = rewrite::Promise::Real;  // the weakest promise that rules may make
  // Whether no value on the way is a NaN or an infinity, see RewriteOptions.
  bool assumes_finite = false;
  // A folded constant may take this many bytes more than the constants that it replaces. None: 64 kB, or a 400th of what all
  // constants have where that is more, as long as they grow by no more than a hundredth in all.
  std::optional<int64_t> fold_limit;
  // Whether the transposed weights of a matrix product are computed: kernels read through the transpose, and a second
  // copy of the weights would be the larger part of what a model needs while it is compiled.
  bool fold_transposed_weights = true;
  // Which DequantizeLinear of constants are computed: what is stored stays quantized, and run times that compute with
  // quantized numbers find the pattern that they know. ButFactors: not those that are multiplied to dequantized numbers, which the pass
  // `quantized` looks for.
  enum class FoldDequantized : uint8_t { None, ButFactors, All };
  FoldDequantized fold_dequantized = FoldDequantized::None;
  // Whether kernels of products read constant weights of that type beside f32, so that their conversion is not computed. Null: they do not.
  bool (*reads_weights)(DType dtype) = nullptr;
  // What folding may still compute, over all runs of passes; null: each context has a budget of its own.
  std::shared_ptr<analysis::FoldBudget> fold_budget;
  // Whether rewrites may count on folding, since it runs after them.
  bool folds = true;
  // Computes what is large; null: the reference kernels do.
  Evaluator evaluate;
  // The rules of simplification; null: standard_rules().
  std::shared_ptr<const rewrite::RuleSet> rules;
  // What the operator set to be written has; see RewriteOptions. Null: everything.
  std::function<bool(const ir::Apply&)> has_operator;
  // Whether what runs the result computes an application accurately where its value is small; see RewriteOptions.
  std::function<bool(const ir::Apply&)> is_accurate;
  // How many rules may still fire; see RewriteOptions. Null: any number.
  int64_t* fuel = nullptr;
  // Whether all repeated code is outlined, or only what came as functions.
  bool outline = false;
  // What the pass `differentiate` differentiates beside the functions of Gradient: result `of` of main, or the sum of its elements, by these
  // parameters of main; none: by all of floats.
  struct Gradient {
    std::optional<size_t> of = 0;
    std::optional<std::vector<size_t>> by;
    // How many states of a loop are kept, from which iterations are repeated; 0: what each iteration leaves is kept.
    int64_t checkpoints = 0;
  } gradient;
  // The bytes of intermediate values and results that there may be at a time: `rematerialize` goes on until the plan fits, whatever that
  // costs in time, or throws ResourceExhausted. None: no limit.
  std::optional<int64_t> memory_limit;
  // Elements of f32 in a vector register of what runs the result, as far as its convolutions fill one with channels.
  int vector_lanes = 8;
  // What a group must save of a run for `group` to make it, by the cost model: memory written and read again, and the overhead of kernels.
  double least_group_saving_us = 4;
  // What the module was before; null: nothing is known of it, and all constants are taken to be new.
  std::shared_ptr<const Origins> origins;
};

// rules/*.rules as data (rewrite/compiled_rules.h): generated.
rewrite::RuleData compiled_rule_data();
// Rules of files of rules/ and functions, for modules of any context and any thread: each set is a constant of the function that asks for it.
std::shared_ptr<const rewrite::RuleSet> built_in_rules(const std::vector<std::string_view>& files,
                                                       const std::vector<std::span<const rewrite::Rule>>& functions = {});
// Those of simplification: all files but kRulesOfPasses, and functions (simplify.cc).
std::shared_ptr<const rewrite::RuleSet> standard_rules();
// In front of them those of a user, who may use the classes of operators of the built-in ones; their names are others.
struct RuleText {
  std::string text, file;
};
std::shared_ptr<const rewrite::RuleSet> standard_rules(ir::Context& context, std::span<const RuleText> own);
// Of the standard ones, those that keep derivatives where there are several, at ties and at 0: for what is to be differentiated.
std::shared_ptr<const rewrite::RuleSet> differentiable_rules();
// Those that drop what only differentiation reads: StopGradient, CustomGradient.
std::shared_ptr<const rewrite::RuleSet> rules_after_differentiation();
// Of the standard ones, those that only take away, and those that move the transposes around a layout to where they cancel.
std::shared_ptr<const rewrite::RuleSet> lowering_rules();
// The files of rules/ that are no simplification: each the rules of the pass of that name.
inline constexpr std::string_view kOnnxRuntimeAttention = "onnxruntime-attention";  // also of `onnxruntime`
inline constexpr std::string_view kGates = "gates";                                 // also of `recurrence`
inline constexpr std::string_view kRulesOfPasses[] = {
    "onnxruntime", kOnnxRuntimeAttention, "caches", "epilogue", kGates, "gradient-kernels", "layers", "normalizations", "parallel", "prologue", "quantized", "recurrence", "split",
    "weights"};
// The rules of those passes.
std::shared_ptr<const rewrite::RuleSet> rules_of_passes();
// Whether that pass makes an operator of ONNX Runtime of an application.
bool has_onnxruntime_operator(const ir::Apply& node);

// Whether generated code computes that Attention (kernels/generated/attention.h).
bool has_attention_kernel(const ir::Apply& node);

// Whether an operator can give floats, and its declaration has no gradient (ops/gradients.h).
bool lacks_gradient(const ir::Apply& node);

class PassContext {
 public:
  PassContext(ir::Module& module, rewrite::Remarks& remarks, const PassOptions& options)
      : module(module),
        inference(module),
        remarks(remarks),
        options(options),
        fold_budget(options.fold_budget ? options.fold_budget : std::make_shared<analysis::FoldBudget>(module)) {}

  // A new application that is to stand for `old`, in its graph and at its location, typed. Null where there is none such, see
  // rewrite/admission.h, with a remark that the rule of the pass is refused.
  ir::Apply* apply(std::string_view pass, std::string_view rule, const ir::Apply& old, std::string_view op,
                   std::span<ir::Node* const> inputs, const AttributeSet& attributes = {});

  // A new application, typed, by a pass whose results are run and not written.
  ir::Apply* make(ir::Graph* graph, const ir::Operator& op, std::span<ir::Node* const> inputs, const AttributeSet& attributes,
                  const ir::Location* location, std::string_view name = {}, size_t num_outputs = 1);

  // Whether the operator set to be written has an application as it is.
  bool is_writable(const ir::Apply& node) const { return !options.has_operator || options.has_operator(node); }

  // Whether a constant may be what main computes: a function of its own does not see that.
  bool is_only_in_main(const ir::Value& constant) const;
  // Lets main compute it. False: that cannot be written.
  bool compute(std::string_view pass, std::string_view rule, ir::Value& constant, std::string_view op,
               std::span<ir::Node* const> inputs, const AttributeSet& attributes);

  // What a pass that has no rules for the engine asks before each of its rewrites, and tells behind it.
  bool has_fuel() const { return !options.fuel || *options.fuel > 0; }
  rewrite::Remark* applied(std::string_view pass, std::string_view rule, const ir::Node& node, std::string message = {});

  const Origins& origins() const;
  rewrite::RewriteOptions rewriting() const;

  ir::Module& module;
  analysis::Inference inference;
  rewrite::Remarks& remarks;
  const PassOptions& options;
  const std::shared_ptr<analysis::FoldBudget> fold_budget;
};

struct Pass {
  std::string_view name;        // "fold"
  std::string_view doc;         // what a report calls its work: "constant folding"
  std::string_view note;        // … and adds for who does not know it: "shapes and casts known before the run"
  size_t (*run)(PassContext&);  // returns the number of changes
  std::source_location where = std::source_location::current();
};
// Each is a constant of its file; the lists of pipeline/pipelines.cc name them.

}  // namespace anfora::passes
