// Rules: local rewrites with a name, tried at the applications of one operator, run to a fixpoint.
//
//     Node* drop_identity(Rewriter&, Apply& root) { return root.input(0); }
//     constexpr Rule kDropIdentity{"identity", "Identity", "Identity(x) = x", Promise::Exact, drop_identity};
//
// A rule looks at its root and what is above it, and returns the node that takes the root's place, or null. It
// never changes existing nodes: others may use them. What it makes and does not return is dropped as dead.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

#include "analysis/infer.h"
#include "ir/module.h"
#include "rewrite/remarks.h"

namespace anfora::rewrite {

// What a rule promises of the values (DESIGN.md section 4).
enum class Promise : uint8_t {
  Exact,   // bit for bit
  Finite,  // bit for bit unless a NaN or an infinity takes part
  Real,    // equal over the reals; rounding may differ
};

// What a rule may ask and make.
class Rewriter {
 public:
  Rewriter(ir::Module& module, analysis::Inference& inference) : module_(module), inference_(inference) {}

  ir::Module& module() const { return module_; }
  analysis::Inference& inference() const { return inference_; }
  ir::Context& context() const { return module_.context(); }

  // A new application, typed, in the graph and at the location of the node being rewritten.
  ir::Apply* apply(std::string_view op, std::initializer_list<ir::Node*> inputs, const AttributeSet& attributes = {});
  ir::Apply* apply(const ir::Operator& op, std::span<ir::Node* const> inputs, const AttributeSet& attributes,
                   size_t num_outputs = 1);
  ir::Value* constant(Tensor tensor) { return module_.constant(std::move(tensor)); }
  ir::Value* integers(std::span<const int64_t> values);

  void set_root(ir::Apply& root) { root_ = &root; }

 private:
  ir::Module& module_;
  analysis::Inference& inference_;
  ir::Apply* root_ = nullptr;
};

struct Rule {
  std::string_view name;      // "unit-mul"
  std::string_view op;        // the root's qualified operator
  std::string_view equation;  // "x · 1 = x"
  Promise promise;
  ir::Node* (*apply)(Rewriter&, ir::Apply& root);
};

// Applies rules everywhere until none fires; `pass` names the caller in remarks. Rules of one operator are tried in
// order. Rules that the weakest allowed promise excludes are left out. Returns how many fired.
size_t apply_rules(std::span<const Rule> rules, Promise weakest, analysis::Inference& inference, Remarks& remarks,
                   std::string_view pass);

}  // namespace anfora::rewrite
