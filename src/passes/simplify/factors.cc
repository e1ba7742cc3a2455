// Factors that vanish in what computes their operand.
//
//     −tanh(x − 1)        =   tanh(1 − x)
//     min(1 / x, 0) · 2   =   min(2 / x, 0)
//
// A constant takes a factor up, a product or quotient where one of its operands does, a difference −1 where its operands change places.
// Other operators do where all their operands do: those with f(c · x) = c · f(x) (`scales`), and, for a negative factor, those with
// f(−x) = −g(x) (`mirror`), as max(−x, −y) = −min(x, y). No operator is added, and the multiplication goes. So it ends.
//
// Operators that others read as well stay as they are. Linear in the operators below the factor, of which at most kMostInRow in a row are tried.
#include <boost/container/small_vector.hpp>
#include <cmath>
#include <optional>

#include "ir/queries.h"
#include "passes/simplify/engines.h"
#include "rewrite/match.h"

namespace anfora::passes {
namespace {

using namespace ir;
using rewrite::Promise;
using rewrite::Rewriter;
using rewrite::Rule;

constexpr int kMostInRow = 6;

class Factor {
 public:
  Factor(Rewriter& rewriter, Apply& root) : rewriter_(rewriter), root_(root) {}

  Node* absorbed() {
    const auto factor = factor_of_root();
    if (constant_tensor(root_.input(0)) || !factor || *factor == 0 || !analysis::SmallestExpressions::takes(*factor)) return nullptr;
    Node* result = times(root_.input(0), *factor, kMostInRow);
    const bool fits = result && same_shape(*result, root_);
    if (!fits) rewriter_.discard_made();
    return fits ? result : nullptr;
  }

 private:
  std::optional<double> factor_of_root() const {
    if (root_.is("Neg")) return -1;
    const auto factor = rewrite::splat_value(root_.input(1));
    return root_.is("Div") && factor ? 1 / *factor : factor;
  }
  bool has_type(const Node* node) const { return ranked_type(node) && node->type()->dtype() == root_.type()->dtype(); }

  // The node times c, with no more operators than it has; null: not known.
  Node* times(Node* node, double c, int depth) {
    if (!has_type(node)) return nullptr;
    if (constant_tensor(node)) return times(*constant_tensor(node), rewrite::splat_value(node), c);
    Apply* apply = node->as_apply();
    if (!apply || depth == 0 || apply->primitive() != Primitive::Operation || apply->num_outputs() != 1 || !apply->has_one_use())
      return nullptr;
    auto with = [&](size_t i, double factor) { return times(apply->input(i), factor, depth - 1); };
    if (apply->is("Neg")) return c == -1 ? apply->input(0) : nullptr;
    if (apply->is("Reciprocal")) return rewriter_.apply("Div", {scalar(c), apply->input(0)});
    if (apply->is("Mul") || apply->is("MatMul")) {
      if (Node* second = with(1, c)) return rewrite::splat_value(second) == 1 ? apply->input(0) : rewriter_.apply(apply->op(), {{apply->input(0), second}}, {});
      Node* first = with(0, c);
      return first ? rewriter_.apply(apply->op(), {{first, apply->input(1)}}, {}) : nullptr;
    }
    if (apply->is("Div")) {
      if (Node* first = with(0, c)) return rewriter_.apply("Div", {first, apply->input(1)});
      Node* second = rewrite::splat_value(apply->input(1)) != 0 ? with(1, 1 / c) : nullptr;  // the sign of a zero matters there
      return second ? rewriter_.apply("Div", {apply->input(0), second}) : nullptr;
    }
    if (c == -1 && apply->is("Sub")) return rewriter_.apply("Sub", {apply->input(1), apply->input(0)});
    if (c == -1 && apply->is("Add")) {
      if (Node* second = with(1, -1)) return rewriter_.apply("Sub", {second, apply->input(0)});
      Node* first = with(0, -1);
      return first ? rewriter_.apply("Sub", {first, apply->input(1)}) : nullptr;
    }
    return with_all(*apply, c, depth);
  }

  // All operands that are numbers times c.
  Node* with_all(Apply& apply, double c, int depth) {
    const Operator& op = apply.op();
    if ((c < 0 && op.mirror.empty()) || (std::abs(c) != 1 && !op.scales)) return nullptr;
    boost::container::small_vector<Node*, 4> operands;
    bool varies = false;
    for (const Use& use : apply.operands()) {
      const bool is_scaled = has_type(use.node);
      operands.push_back(is_scaled ? times(use.node, c, depth - 1) : use.node);
      if (!operands.back()) return nullptr;
      varies = varies || is_scaled;
    }
    if (!varies) return nullptr;
    return rewriter_.apply(c < 0 ? rewriter_.context().get_operator(op.mirror) : op, operands, apply.attributes());
  }

  Node* times(const Tensor& constant, std::optional<double> value, double c) {
    if (!value || constant.size() != 1 || !analysis::SmallestExpressions::takes(*value * c)) return nullptr;
    const double product = *value == 0 ? 0 : *value * c;  // not −0
    auto tensor = rewrite::scalar_of(root_.type()->dtype(), product);
    return tensor ? rewriter_.constant(tensor->reshaped(Shape(static_cast<size_t>(constant.rank()), 1))) : nullptr;
  }
  Node* scalar(double value) { return rewriter_.constant(*rewrite::scalar_of(root_.type()->dtype(), value)); }

  Rewriter& rewriter_;
  Apply& root_;
};

Node* push_factor_down(Rewriter& rewriter, Apply& root) {
  const Type* type = ranked_type(&root);
  return type && (type->dtype() == DType::F32 || type->dtype() == DType::F64) ? Factor(rewriter, root).absorbed() : nullptr;
}

constexpr Rule kFactors[] = {
    {"absorb-factor", "Neg Mul Div", "f(x) · c = f(x · c), where that is no operator more", Promise::Real, push_factor_down},
};

}  // namespace

std::span<const Rule> factor_rules() { return kFactors; }

}  // namespace anfora::passes
