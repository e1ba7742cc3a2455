// Rules: local rewrites with a name, tried at the applications of an operator, run to a fixpoint.
//
// Most are equations in rules/*.rules, see docs/adding-a-rule.md. What an equation cannot say is a function:
//
//     Node* drop_identity(Rewriter&, Apply& root) { return root.input(0); }
//     constexpr Rule kDropIdentity{"identity", "Identity", "Identity(x) = x", Promise::Exact, drop_identity};
//
// A rule looks at its root and what is above it, and returns the node that takes the root's place, or null. It
// never changes existing nodes: others may use them. What it makes and does not return is dropped as dead.
#pragma once

#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/folding.h"
#include "analysis/infer.h"
#include "analysis/ordering.h"
#include "analysis/piecewise.h"
#include "analysis/range.h"
#include "ir/module.h"
#include "rewrite/admission.h"
#include "rewrite/remarks.h"

namespace anfora::rewrite {

// What a rule promises of the values (DESIGN.md section 4).
enum class Promise : uint8_t {
  Exact,   // bit for bit
  Finite,  // every finite result bit for bit
  Real,    // every finite result but for rounding
};
std::string_view to_string(Promise promise);
Promise promise_named(std::string_view name);  // throws InvalidArgument

// An application that may not be made, see admission.h.
struct Refusal {
  std::string why;
};

// What a rule may ask and make.
class Rewriter {
 public:
  // `assumes_finite`: nothing is a NaN or an infinity, see RewriteOptions.
  Rewriter(ir::Module& module, analysis::Inference& inference, bool assumes_finite = false)
      : module_(module), inference_(inference), assumes_finite_(assumes_finite) {}

  ir::Module& module() const { return module_; }
  analysis::Inference& inference() const { return inference_; }
  ir::Context& context() const { return module_.context(); }
  analysis::ValueRange range(const ir::Node* node) { return ranges_.range(node); }
  // The same where the model's inputs are finite and nothing overflows.
  analysis::ValueRange ordinary_range(const ir::Node* node) { return ordinary_ranges_.range(node); }
  // Whether a ≤ b is shown for all elements that are numbers, where the model's inputs are finite and nothing overflows.
  bool at_most(const ir::Node* a, const ir::Node* b) { return analysis::Ordering(ordinary_ranges_).at_most(a, b); }
  bool assumes_finite() const { return assumes_finite_; }
  analysis::SmallestExpressions& smallest_expressions() { return smallest_expressions_; }

  // A new application, typed, in the graph of the node being rewritten, or another (`make_in`), and at its location. Throws Refusal where its declaration
  // does not take the operands: the rule is then not applied.
  ir::Apply* apply(std::string_view op, std::initializer_list<ir::Node*> inputs, const AttributeSet& attributes = {});
  ir::Apply* apply(const ir::Operator& op, std::span<ir::Node* const> inputs, const AttributeSet& attributes,
                   size_t num_outputs = 1);
  // Result `index` of an application with several, typed.
  ir::Node* item(ir::Node* tuple, size_t index);
  ir::Node* tuple(std::span<ir::Node* const> items);
  ir::Value* constant(Tensor tensor) { return module_.constant(std::move(tensor)); }
  ir::Value* integers(std::span<const int64_t> values);

  void make_in(ir::Graph& graph) { graph_ = &graph; }
  // Begins the rewriting of another node: what was made for the one before is forgotten.
  void set_root(ir::Apply& root);
  ir::Apply& root() const { return *root_; }
  // The applications that were made for this root.
  std::span<ir::Apply* const> made() const { return made_; }
  // Erases those of them that nobody uses.
  void discard_made();

 private:
  ir::Module& module_;
  analysis::Inference& inference_;
  analysis::RangeAnalysis ranges_, ordinary_ranges_{analysis::RangeAnalysis::Assume::OrdinaryInputs};
  analysis::SmallestExpressions smallest_expressions_;
  const bool assumes_finite_;
  ir::Apply* root_ = nullptr;
  ir::Graph* graph_ = nullptr;
  std::vector<ir::Apply*> made_;
};

// The operators of which a rule's root is one: their qualified names, "Add Sub", or a fact of their declarations.
struct Roots {
  constexpr Roots(const char* names) : names(names) {}
  constexpr Roots(bool (*are)(const ir::Operator&)) : are(are) {}

  std::string_view names;
  bool (*are)(const ir::Operator&) = nullptr;
};

struct Rule {
  std::string_view name;      // "unit-mul"
  Roots roots;
  std::string_view equation;  // "x · 1 = x"
  Promise promise;
  ir::Node* (*apply)(Rewriter&, ir::Apply& root);
  // The result is what the root is, whatever inference knows of the root's shape: sizes that it could not tell may sharpen.
  bool sharpens = false;
};

// A scalar constant; empty where the type has no such number.
std::optional<Tensor> scalar_of(DType dtype, double number);

class RuleSet;

struct RewriteOptions {
  Promise weakest = Promise::Real;  // rules that promise less are left out
  // How many rewrites may still be done, counted down: halving it finds the one that goes wrong. Null: any number.
  int64_t* fuel = nullptr;
  // Whether no value on the way is a NaN or an infinity: then rules need not keep what those decide.
  bool assumes_finite = false;
  // Whether the operator set that is to be written has what a rule made, as it is used there; null: it has everything.
  // A composite that had to be written decomposed again would be worse than what it was made of.
  HasOperator has_operator = nullptr;
  // Where the result of an [accurate] rule would lose what the pattern has, the rule is left out.
  IsAccurate is_accurate = nullptr;
  // The rules define their roots, as expansions do: where a shape is not shown to stay, it is that of the result.
  bool define_roots = false;
  // Whether what rules make of constants is folded afterwards, which rules may count on; and the bounds of that: of work (null:
  // none), and by how many bytes a result may exceed what it is made of.
  bool folds = true;
  // Whether numbers that rules compute of numbers, c + 1, are computed at once: a chain that collapses step by step would take a
  // round of all passes for each step.
  bool folds_at_once = false;
  analysis::FoldBudget* fold_budget = nullptr;
  int64_t fold_limit = std::numeric_limits<int64_t>::max();
};

// Whether an equation of the set matches at a root, and its condition holds.
bool applies(const RuleSet& rules, const ir::Apply& root, analysis::Inference& inference);

// Applies rules everywhere until none fires; `pass` names the caller in remarks. The rules of one operator are tried in
// the order of the set. Returns how many fired.
size_t apply_rules(const RuleSet& rules, const RewriteOptions& options, analysis::Inference& inference,
                   Remarks& remarks, std::string_view pass);
size_t apply_rules(std::span<const Rule> rules, const RewriteOptions& options, analysis::Inference& inference,
                   Remarks& remarks, std::string_view pass);

}  // namespace anfora::rewrite
