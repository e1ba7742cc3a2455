// Sums and products of floats in the shortest form.
//
//     −((x + 1) − y · 2)        =   y · 2 − x − 1         a sum of terms with factors, and a constant
//     −1 / (x / z)              =   −(z / x)              a product of terms with exponents, and a constant
//
// Operators of a tree are read as one such normal form: Add, Sub, Neg and factors that are constants; or Mul, Div, Reciprocal, Neg
// and small powers. Terms that are the same come together. Then the form is written with as few operators as it needs, and takes the
// place of the tree where these are fewer than it had. So nothing is spelled otherwise for its own sake, and it ends.
//
// Terms have the shape of the root, else the order in which they meet matters (small-operands-first in rules/arithmetic.rules). An
// inner operator that others use as well is a term. What cancels has to be a number, and where it divided not 0; constants that differ
// in size are not brought together, see addable(c, d) in src/rewrite/about.cc. A product with 0, or of a number divided by 0, keeps the
// terms that may make it a NaN, or that have its sign: 0 / z · 2 / z = 0 / z.
//
// Linear in the size of the tree, of which at most kMostOperators are read.
#include <algorithm>
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

constexpr int kMostOperators = 6;
constexpr int kMostExponent = 4;

bool is_moderate(double c) { return analysis::SmallestExpressions::takes(c); }

struct Term {
  Node* node;
  double weight;  // its factor in a sum, its exponent in a product
  bool was_positive, was_negative;  // weights that came together
  bool has_met_itself() const { return was_positive && was_negative; }
};
using Terms = boost::container::small_vector<Term, 8>;

// What both normal forms have in common: the terms of a tree, and how to write a result.
class NormalForm {
 public:
  NormalForm(Rewriter& rewriter, Apply& root) : rewriter_(rewriter), root_(root) {}

  Node* constant_result(double number) {
    auto shape = root_.type()->static_shape();
    Node* value = scalar(number);
    if (!shape || !value) return nullptr;
    return rewriter_.apply("Expand", {value, rewriter_.integers(std::vector<int64_t>(shape->begin(), shape->end()))});
  }

 protected:
  // An operator of the tree, as the operand of another: nobody else reads it. It may be met twice.
  const Apply* inner(const Node* node, const Apply* reader) {
    const Apply* apply = node->as_apply();
    if (!apply || apply->primitive() != Primitive::Operation || !apply->op().domain.empty()) return nullptr;
    if (operators_.size() == kMostOperators) return nullptr;
    if (std::ranges::all_of(apply->operands(), [](const Use& use) { return use.node && constant_tensor(use.node); })) {
      is_readable_ = false;  // left to constant folding
      return nullptr;
    }
    const bool is_inner =
        apply == &root_ || std::ranges::all_of(apply->uses(), [&](const Use& use) { return use.user == reader; });
    return is_inner ? apply : nullptr;
  }
  void count(const Apply* node) {
    if (!std::ranges::count(operators_, node)) operators_.push_back(node);
  }
  int num_operators() const { return static_cast<int>(operators_.size()); }

  void add_term(Node* node, double weight) {
    for (Term& term : terms_) {
      if (term.node != node) continue;
      term.was_positive = term.was_positive || weight > 0;
      term.was_negative = term.was_negative || weight < 0;
      term.weight += weight;
      return;
    }
    terms_.push_back({node, weight, weight > 0, weight < 0});
  }
  void drop_cancelled() {
    terms_.erase(std::remove_if(terms_.begin(), terms_.end(), [](const Term& t) { return t.weight == 0; }), terms_.end());
  }
  bool is_ordinary(const Node* node) {
    return rewriter_.assumes_finite() || rewriter_.ordinary_range(node).is_finite();
  }
  Node* scalar(double number) {
    auto tensor = rewrite::scalar_of(root_.type()->dtype(), number == 0 ? 0 : number);  // not −0
    return tensor ? rewriter_.constant(*std::move(tensor)) : nullptr;
  }
  // One operand more; null: the first.
  Node* joined(std::string_view op, Node* a, Node* b) { return a ? rewriter_.apply(op, {a, b}) : b; }

  Rewriter& rewriter_;
  Apply& root_;
  Terms terms_;
  double constant_ = 0;
  boost::container::small_vector<const Apply*, kMostOperators> operators_;
  bool is_readable_ = true;
};

// Σ factor · term + constant
class LinearForm : NormalForm {
 public:
  LinearForm(Rewriter& rewriter, Apply& root) : NormalForm(rewriter, root) { read(&root, nullptr, 1); }

  Node* shortened() {
    if (!is_readable_ || !is_moderate(constant_)) return nullptr;
    for (const Term& term : terms_) {
      if (term.weight != 0 && !is_moderate(term.weight)) return nullptr;
      if (!same_shape(*term.node, root_) || (term.weight == 0 && !is_ordinary(term.node))) return nullptr;
    }
    if (terms_.empty()) return nullptr;  // left to constant folding
    drop_cancelled();
    if (terms_.empty()) return constant_result(constant_);
    double best = 1;
    for (const Term& term : terms_) {
      for (double factor : {1.0, -1.0, term.weight, -term.weight}) {
        if (cost(factor) < cost(best)) best = factor;
      }
    }
    return cost(best) < num_operators() ? written(best) : nullptr;
  }

 private:
  void read(Node* node, const Apply* reader, double weight) {
    if (auto c = rewrite::splat_value(node)) {
      is_readable_ = is_readable_ && is_moderate(*c);
      constant_ += weight * *c;
      return;
    }
    const Apply* apply = inner(node, reader);
    if (!apply) return add_term(node, weight);
    const bool is_sum = apply->is("Add") || apply->is("Sub"), is_scaled = apply->is("Mul") || apply->is("Div");
    const auto factor = is_scaled ? rewrite::splat_value(apply->input(1)) : std::nullopt;
    if (!is_sum && !apply->is("Neg") && (!factor || *factor == 0)) return add_term(node, weight);
    count(apply);
    if (factor) {
      is_readable_ = is_readable_ && is_moderate(*factor);
      return read(apply->input(0), apply, apply->is("Mul") ? weight * *factor : weight / *factor);
    }
    read(apply->input(0), apply, apply->is("Neg") ? -weight : weight);
    if (is_sum) read(apply->input(1), apply, apply->is("Sub") ? -weight : weight);
  }

  // Operators of `common` · (Σ (factor / common) · term + constant / common).
  int cost(double common) const {
    int operators = static_cast<int>(terms_.size()) - 1 + (constant_ != 0) + (common != 1);
    bool has_first = constant_ != 0;
    for (const Term& term : terms_) {
      operators += std::abs(term.weight / common) != 1;
      has_first = has_first || term.weight / common != -1;
    }
    return has_first ? operators : kMostOperators + 1;
  }

  Node* written(double common) {
    Node* sum = nullptr;
    const double constant = constant_ / common;
    auto weight = [&](const Term& term) { return term.weight / common; };
    auto scaled = [&](const Term& term, double factor) {
      return factor == 1 ? term.node : rewriter_.apply("Mul", {term.node, scalar(factor)});
    };
    for (const Term& term : terms_) {
      if (weight(term) > 0) sum = joined("Add", sum, scaled(term, weight(term)));
    }
    if (!sum && constant == 0) {  // a product with a negative factor comes first
      auto first = std::ranges::find_if(terms_, [&](const Term& term) { return weight(term) != -1; });
      sum = scaled(*first, weight(*first));
      terms_.erase(first);
    }
    if (!sum) sum = scalar(constant);
    else if (constant != 0) sum = rewriter_.apply("Add", {sum, scalar(constant)});
    for (const Term& term : terms_) {
      if (weight(term) < 0) sum = rewriter_.apply("Sub", {sum, scaled(term, -weight(term))});
    }
    if (common == 1) return sum;
    return common == -1 ? rewriter_.apply("Neg", {sum}) : rewriter_.apply("Mul", {sum, scalar(common)});
  }
};

// constant · Π term ^ exponent
class ProductForm : NormalForm {
 public:
  ProductForm(Rewriter& rewriter, Apply& root) : NormalForm(rewriter, root) {
    constant_ = 1;
    read(&root, nullptr, 1);
  }

  Node* shortened() {
    if (!is_readable_ || terms_.empty()) return nullptr;
    if (constant_ == 0) return times_zero();
    if (std::isinf(constant_)) return over_zero();
    if (!is_moderate(constant_)) return nullptr;
    Terms kept;
    for (const Term& term : terms_) {
      if (std::abs(term.weight) > kMostExponent || !same_shape(*term.node, root_)) return nullptr;
      const bool stays = term.has_met_itself() && !may_cancel(term.node);  // x / x is a NaN where x is 0
      if (stays) kept.push_back({term.node, term.weight < 0 ? 1.0 : -1.0, true, true});
      if (stays || term.weight != 0) kept.push_back({term.node, term.weight + (!stays ? 0 : term.weight < 0 ? -1 : 1), true, true});
    }
    terms_ = std::move(kept);
    if (terms_.empty()) return constant_result(constant_);
    return cost() < num_operators() ? written() : nullptr;
  }

 private:
  void read(Node* node, const Apply* reader, double exponent) {
    if (auto c = rewrite::splat_value(node)) {
      is_readable_ = is_readable_ && is_moderate(*c);
      constant_ *= std::pow(std::abs(*c), exponent);
      if (std::signbit(*c) && std::fmod(exponent, 2) != 0) constant_ = -constant_;
      return;
    }
    const Apply* apply = inner(node, reader);
    if (!apply) return add_term(node, exponent);
    const bool is_product = apply->is("Mul") || apply->is("Div");
    const auto power = apply->is("Pow") ? rewrite::splat_value(apply->input(1)) : std::nullopt;
    const bool is_power = power && *power != 0 && std::abs(*power) <= kMostExponent && std::trunc(*power) == *power;
    if (!is_product && !is_power && !apply->is("Neg") && !apply->is("Reciprocal")) return add_term(node, exponent);
    count(apply);
    if (apply->is("Neg") && std::fmod(exponent, 2) != 0) constant_ = -constant_;
    read(apply->input(0), apply, is_power ? exponent * *power : apply->is("Reciprocal") ? -exponent : exponent);
    if (is_product) read(apply->input(1), apply, apply->is("Div") ? -exponent : exponent);
  }

  bool may_cancel(const Node* node) {
    const analysis::ValueRange range = rewriter_.ordinary_range(node);
    return is_ordinary(node) && (range.low > 0 || range.high < 0);
  }

  // 0 · Π term ^ exponent: a NaN where what divides it is 0.
  Node* times_zero() {
    Node* divisor = nullptr;
    int operators = 0;
    for (const Term& term : terms_) {
      if (!same_shape(*term.node, root_) || (term.was_positive && !is_ordinary(term.node))) return nullptr;
      if (!term.was_negative || may_cancel(term.node)) continue;
      if (++operators >= num_operators()) return nullptr;
      divisor = joined("Mul", divisor, term.node);
    }
    return divisor ? rewriter_.apply("Div", {scalar(0), divisor}) : constant_result(0);
  }
  // Π term ^ exponent / 0: infinite, with the sign of the product, and a NaN where that is 0.
  Node* over_zero() {
    Node* product = nullptr;
    int operators = constant_ < 0 ? 1 : 0;
    for (const Term& term : terms_) {
      if (!same_shape(*term.node, root_) || !is_ordinary(term.node)) return nullptr;
      if (rewriter_.ordinary_range(term.node).low > 0) continue;
      if (!term.was_positive) return nullptr;
      const bool is_even = std::fmod(term.weight, 2) == 0;
      operators += is_even ? 2 : 1;
      if (operators >= num_operators()) return nullptr;
      product = joined("Mul", product, is_even ? rewriter_.apply("Abs", {term.node}) : term.node);
    }
    if (!product) return constant_result(constant_);
    Node* quotient = rewriter_.apply("Div", {product, scalar(0)});
    return constant_ < 0 ? rewriter_.apply("Neg", {quotient}) : quotient;
  }

  int cost() const {
    int operators = 0, above = 0, below = 0;
    for (const Term& term : terms_) {
      operators += std::abs(term.weight) != 1;
      ++(term.weight > 0 ? above : below);
    }
    if (above > 0) operators += above - 1 + (constant_ != 1);
    return operators + below;
  }

  Node* written() {
    Node *above = nullptr, *below = nullptr;
    for (const Term& term : terms_) {
      Node*& side = term.weight > 0 ? above : below;
      side = joined("Mul", side, power(term.node, std::abs(term.weight)));
    }
    if (!above) return constant_ == 1 ? rewriter_.apply("Reciprocal", {below}) : rewriter_.apply("Div", {scalar(constant_), below});
    Node* quotient = below ? rewriter_.apply("Div", {above, below}) : above;
    if (constant_ == 1) return quotient;
    return constant_ == -1 ? rewriter_.apply("Neg", {quotient}) : rewriter_.apply("Mul", {quotient, scalar(constant_)});
  }
  Node* power(Node* node, double exponent) {
    if (exponent == 1) return node;
    return exponent == 2 ? rewriter_.apply("Mul", {node, node}) : rewriter_.apply("Pow", {node, scalar(exponent)});
  }
};

bool is_covered(const Apply& root) {
  const Type* type = root.type();
  return type && type->is_tensor() && type->has_rank() && (type->dtype() == DType::F32 || type->dtype() == DType::F64);
}

Node* shorten_sum(Rewriter& rewriter, Apply& root) {
  return is_covered(root) ? LinearForm(rewriter, root).shortened() : nullptr;
}
Node* shorten_product(Rewriter& rewriter, Apply& root) {
  return is_covered(root) ? ProductForm(rewriter, root).shortened() : nullptr;
}

// A function of 0 / x or x / x, each of which is one number or a NaN, that is 0 or 1 or a NaN itself.
//
//     exp(0 / x)   =   x / x
Node* known_or_nan(Rewriter& rewriter, Apply& root) {
  if (!is_covered(root)) return nullptr;
  Apply* quotient = nullptr;
  for (const Use& use : root.operands()) {
    if (constant_tensor(use.node)) continue;
    if (quotient) return nullptr;
    quotient = use.node->as_apply();
    if (!quotient || !quotient->is("Div") || !same_shape(*quotient, root)) return nullptr;
  }
  if (!quotient) return nullptr;
  Node* x = quotient->input(1);
  const bool is_zero = rewrite::splat_value(quotient->input(0)) == 0;
  if ((!is_zero && quotient->input(0) != x) || !same_shape(*x, root)) return nullptr;
  const analysis::ValueRange range = rewriter.ordinary_range(&root);
  const bool is_known = range.low == range.high && range.may_be_nan && (range.low == 0 || range.low == 1);
  const bool is_division = root.is("Div") || root.is("Reciprocal");  // a NaN also where its divisor is 0
  if (!is_known || (is_division && is_zero)) return nullptr;
  if (range.low == (is_zero ? 0 : 1)) return quotient;
  if (!rewriter.assumes_finite() && !rewriter.ordinary_range(x).is_finite()) return nullptr;
  auto zero = rewrite::scalar_of(root.type()->dtype(), 0);
  return rewriter.apply("Div", {range.low == 1 ? x : rewriter.constant(*std::move(zero)), x});
}

constexpr std::string_view kSum = "a sum of multiples = the same with fewer operators";
constexpr std::string_view kProduct = "a product of powers = the same with fewer operators";
constexpr std::string_view kKnownOrNan = "f(0 / x), f(x / x) = 0 / x or x / x, where it is a NaN or the number that this is";

bool is_factor(const Operator& op) { return is_linear(op) && !is_sum(op); }
bool is_product_or_quotient(const Operator& op) { return is_factor(op) || op.name == "Reciprocal"; }
// A power is a number beside a NaN only where its range tells.
bool may_be_known_or_nan(const Operator& op) { return op.range && (op.keeps_nan || op.name == "Pow"); }

constexpr Rule kNormalForms[] = {
    {"shorter-sum", is_linear, kSum, Promise::Real, shorten_sum},
    {"shorter-product", is_product_or_quotient, kProduct, Promise::Real, shorten_product},
    {"known-or-nan", may_be_known_or_nan, kKnownOrNan, Promise::Real, known_or_nan},
};

}  // namespace

std::span<const Rule> normal_form_rules() { return kNormalForms; }

}  // namespace anfora::passes
