// Sums, products and clamped lines of floats in the shortest form.
//
//     −((x + 1) − y · 2)        =   y · 2 − x − 1         a sum of terms with factors, and a constant
//     −1 / (x / z)              =   −(z / x)              a product of terms with exponents, and a constant
//     −max(min(x − 1, 2), 0)    =   1 − Clip(x, 1, 3)     a line from bound to bound: min(max(a · x + b, low), high)
//
// Operators of a tree are read as one such normal form: Add, Sub, Neg and factors that are constants; or Mul, Div, Reciprocal, Neg
// and small powers; or what a constant is added to, multiplied with, or a bound of. Terms that are the same come together. Then the
// form is written with as few operators as it needs, and takes the place of the tree where these are fewer than it had. So nothing
// is spelled otherwise for its own sake, and it ends. A comparison of a clamped line with a constant is one of x itself.
//
// Terms have the shape of the root, else the order in which they meet matters (small-operands-first in rules/arithmetic.rules). An
// inner operator that others use as well is a term. What cancels has to be a number, and where it divided not 0; constants that differ
// in size are not brought together, see addable(c, d) in src/rewrite/about.cc.
//
// Linear in the size of the tree, of which at most kMostOperators are read.
#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cmath>
#include <limits>
#include <optional>

#include "ir/queries.h"
#include "passes/pass.h"
#include "rewrite/match.h"

namespace anfora::passes {
namespace {

using namespace ir;
using rewrite::Promise;
using rewrite::Rewriter;
using rewrite::Rule;

constexpr int kMostOperators = 6;
// Constants that are brought together, but 0 and 1, lie within these bounds: their sums and products lose no digits.
constexpr double kLeastConstant = 0x1p-10, kMostConstant = 0x1p10;
constexpr int kMostExponent = 4;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool is_moderate(double c) { return c == 0 || (std::abs(c) >= kLeastConstant && std::abs(c) <= kMostConstant); }

struct Term {
  Node* node;
  double weight;        // its factor in a sum, its exponent in a product
  bool has_met_itself;  // with weights of both signs
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
  // The number that a constant is made of.
  static std::optional<double> number(const Node* node) { return constant_tensor(node) ? rewrite::splat_value(node) : std::nullopt; }

  void add_term(Node* node, double weight) {
    for (Term& term : terms_) {
      if (term.node != node) continue;
      term.has_met_itself = term.has_met_itself || (term.weight < 0) != (weight < 0);
      term.weight += weight;
      return;
    }
    terms_.push_back({node, weight, false});
  }
  void drop_cancelled() {
    terms_.erase(std::remove_if(terms_.begin(), terms_.end(), [](const Term& t) { return t.weight == 0; }), terms_.end());
  }
  bool is_ordinary(const Node* node) {
    return rewriter_.assumes_finite() || rewriter_.ordinary_range(node).is_finite();
  }
  Node* scalar(double number) {
    const Type* type = root_.type()->dtype() == DType::Bool ? root_.input(0)->type() : root_.type();
    auto tensor = rewrite::scalar_of(type->dtype(), number == 0 ? 0 : number);  // not −0
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

std::string_view mirrored(std::string_view op) {
  if (op == "Less") return "Greater";
  if (op == "Greater") return "Less";
  if (op == "LessOrEqual") return "GreaterOrEqual";
  return op == "GreaterOrEqual" ? "LessOrEqual" : op;
}

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

  // The root compares one form with another: their terms on one side, the constant on the other.
  LinearForm(Rewriter& rewriter, Apply& root, Node* left, Node* right) : NormalForm(rewriter, root) {
    read(left, &root, 1);
    read(right, &root, -1);
  }
  Node* compared() {
    if (!is_readable_ || !is_moderate(constant_)) return nullptr;
    for (const Term& term : terms_) {
      if (term.weight != 0 && !is_moderate(term.weight)) return nullptr;
      if (!same_shape(*term.node, root_) || (term.weight == 0 && !is_ordinary(term.node))) return nullptr;
    }
    drop_cancelled();
    if (terms_.empty() || num_operators() == 0) return nullptr;
    const double limit = -constant_;
    constant_ = 0;
    // a · x < a · y is a comparison of x and y
    const bool is_pair = limit == 0 && terms_.size() == 2 && terms_[0].weight == -terms_[1].weight;
    double best = terms_[0].weight;
    for (const Term& term : terms_) {
      for (double factor : {term.weight, -term.weight}) {
        if (cost(factor) - (factor != 1) < cost(best) - (best != 1)) best = factor;
      }
    }
    const std::string_view op = best < 0 ? mirrored(root_.op().name) : std::string_view(root_.op().name);
    if (is_pair) {
      const bool in_order = terms_[0].weight > 0;
      return rewriter_.apply(root_.op(), std::vector<Node*>{terms_[in_order ? 0 : 1].node, terms_[in_order ? 1 : 0].node}, {});
    }
    if (cost(best) - (best != 1) >= num_operators()) return nullptr;
    for (Term& term : terms_) term.weight /= best;
    auto bound = rewrite::scalar_of(terms_[0].node->type()->dtype(), limit / best);
    return bound ? rewriter_.apply(op, {written(1), rewriter_.constant(*std::move(bound))}) : nullptr;
  }

 private:
  void read(Node* node, const Apply* reader, double weight) {
    if (auto c = number(node)) {
      is_readable_ = is_readable_ && is_moderate(*c);
      constant_ += weight * *c;
      return;
    }
    const Apply* apply = inner(node, reader);
    if (!apply) return add_term(node, weight);
    const bool is_sum = apply->is("Add") || apply->is("Sub"), is_scaled = apply->is("Mul") || apply->is("Div");
    const auto factor = is_scaled ? number(apply->input(1)) : std::nullopt;
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
    if (!is_readable_ || !is_moderate(constant_) || terms_.empty()) return nullptr;
    Terms kept;
    for (const Term& term : terms_) {
      if (std::abs(term.weight) > kMostExponent || !same_shape(*term.node, root_)) return nullptr;
      const bool stays = term.has_met_itself && !may_cancel(term.node);  // x / x is a NaN where x is 0
      if (stays) kept.push_back({term.node, term.weight < 0 ? 1.0 : -1.0, false});
      if (stays || term.weight != 0) kept.push_back({term.node, term.weight + (!stays ? 0 : term.weight < 0 ? -1 : 1), false});
    }
    terms_ = std::move(kept);
    if (terms_.empty()) return constant_result(constant_);
    return cost() < num_operators() ? written() : nullptr;
  }

 private:
  void read(Node* node, const Apply* reader, double exponent) {
    if (auto c = number(node)) {
      is_readable_ = is_readable_ && *c != 0 && is_moderate(*c);
      constant_ *= std::pow(*c, exponent);
      return;
    }
    const Apply* apply = inner(node, reader);
    if (!apply) return add_term(node, exponent);
    const bool is_product = apply->is("Mul") || apply->is("Div");
    const auto power = apply->is("Pow") ? number(apply->input(1)) : std::nullopt;
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

// min(max(slope · x + shift, low), high)
struct ClampedLine {
  double slope = 1, shift = 0, low = -kInfinity, high = kInfinity;

  void add(double c) {
    shift += c;
    low += c;
    high += c;
  }
  void multiply(double c) {
    slope *= c;
    shift *= c;
    low *= c;
    high *= c;
    if (c < 0) std::swap(low, high);
  }
  void bound_below(double c) {
    low = std::max(low, c);
    high = std::max(high, c);
  }
  void bound_above(double c) {
    low = std::min(low, c);
    high = std::min(high, c);
  }
};

// What is known of x, where a condition holds: it lies between bounds.
struct Interval {
  double low = -kInfinity, high = kInfinity;
};

// What a comparison with a constant comes to.
struct Verdict {
  std::optional<bool> known;
  std::string_view op;  // else: this comparison of x
  double bound = 0;     // with that
};

// A chain that computes a clamped line, down to its source; or a constant.
class Chain : public NormalForm {
 public:
  // Of which the last operator is `end`, that only `reader` reads.
  Chain(Rewriter& rewriter, Apply& root, Node* end, const Apply* reader) : NormalForm(rewriter, root), source_(end), reader_(reader) {
    if (auto c = number(end)) {
      line_ = {0, *c, *c, *c};
      return;
    }
    for (;;) {
      const Apply* apply = inner(source_, reader_);
      Node* operand = apply ? operand_of(*apply) : nullptr;
      if (!operand || !same_shape(*operand, *apply)) break;
      count(apply);
      source_ = operand;
      reader_ = apply;
    }
    for (auto chain = operators_; !chain.empty(); chain.pop_back()) {
      extend(*chain.back());
      is_readable_ = is_readable_ && is_covered();
    }
  }

  Node* source() const { return source_; }
  const ClampedLine& line() const { return line_; }
  std::span<const Apply* const> operators() const { return operators_; }
  bool is_readable() const { return is_readable_; }
  bool is_constant() const { return line_.low == line_.high; }
  bool is_number() { return rewriter_.assumes_finite() || constant_tensor(source_) || !rewriter_.ordinary_range(source_).may_be_nan; }
  // The operator that the source is, where nobody else reads it.
  const Apply* choice() {
    const Apply* apply = inner(source_, reader_);
    const bool is_cast = apply && apply->is("Cast") && apply->input(0)->type() && apply->input(0)->type()->is_tensor() &&
                         apply->input(0)->type()->dtype() == DType::Bool;
    return apply && (is_cast || apply->is("Where")) ? apply : nullptr;
  }

  // Another line behind it.
  void extend(const ClampedLine& outer) {
    line_.multiply(outer.slope);
    line_.add(outer.shift);
    line_.bound_below(outer.low);
    line_.bound_above(outer.high);
    is_readable_ = is_readable_ && is_covered();
  }
  // The same for an x that lies there: bounds that are not met, and slopes between others, go.
  void restrict_to(Interval x) {
    if (is_constant() || !is_number()) return;
    const double a = line_.slope * x.low + line_.shift, b = line_.slope * x.high + line_.shift;
    const double least = std::min(a, b), most = std::max(a, b);
    if (least == most || most <= line_.low || least >= line_.high) {
      const double c = std::clamp(least == most ? least : most <= line_.low ? line_.low : line_.high, line_.low, line_.high);
      line_ = {0, c, c, c};
      return;
    }
    if (least >= line_.low) line_.low = -kInfinity;
    if (most <= line_.high) line_.high = kInfinity;
  }

  int cost() const { return is_constant() ? 0 : best().cost(); }
  Node* written() { return is_constant() ? scalar(line_.low) : written(best()); }

  Verdict compare(std::string_view op, double limit) {
    if (op == "Equal" && !is_constant() && (limit == line_.low || limit == line_.high))
      op = limit == line_.low ? "LessOrEqual" : "GreaterOrEqual";
    const bool below = line_.high < limit, above = line_.low > limit;
    const bool at_most = line_.high <= limit, at_least = line_.low >= limit;
    std::optional<bool> known;
    if (op == "Equal" && is_constant()) known = line_.low == limit;
    else if (op == "Equal" && (below || above)) known = false;
    else if (op == "Less" && (below || at_least)) known = below;
    else if (op == "LessOrEqual" && (at_most || above)) known = at_most;
    else if (op == "Greater" && (above || at_most)) known = above;
    else if (op == "GreaterOrEqual" && (at_least || below)) known = at_least;
    if (known) return {known, op};
    return {known, line_.slope < 0 ? mirrored(op) : op, (limit - line_.shift) / line_.slope};
  }
  Node* written(const Verdict& verdict) {
    if (verdict.known) return rewriter_.constant(Tensor::scalar(*verdict.known));
    auto bound = rewrite::scalar_of(source_->type()->dtype(), verdict.bound);
    return bound ? rewriter_.apply(verdict.op, {source_, rewriter_.constant(*std::move(bound))}) : nullptr;
  }

 private:
  // A line, bounds, and another line behind them.
  struct Parts {
    ClampedLine first, second;  // of `first`, the bounds as well
    static int cost_of(double slope, double shift) { return (shift != 0) + (slope != 1 && !(slope == -1 && shift != 0)); }
    bool is_bounded() const { return first.low > -kInfinity || first.high < kInfinity; }
    int cost() const {
      return cost_of(first.slope, first.shift) + is_bounded() + cost_of(second.slope, second.shift);
    }
  };
  Parts best() const {
    Parts best{line_, {}};
    for (double slope : {1.0, -1.0, line_.slope, -line_.slope}) {
      for (double shift : {0.0, line_.shift, line_.low, line_.high}) {
        if (std::isinf(shift)) continue;
        Parts parts{line_, {slope, shift}};
        parts.first.add(-shift);
        parts.first.multiply(1 / slope);
        if (parts.cost() < best.cost()) best = parts;
      }
    }
    return best;
  }

  Node* written(const Parts& parts) {
    Node* value = line_of(source_, parts.first);
    const double low = parts.first.low, high = parts.first.high;
    if (low == 0 && high == kInfinity) value = rewriter_.apply("Relu", {value});
    else if (low > -kInfinity && high < kInfinity) value = rewriter_.apply("Clip", {value, scalar(low), scalar(high)});
    else if (low > -kInfinity) value = rewriter_.apply("Max", {value, scalar(low)});
    else if (high < kInfinity) value = rewriter_.apply("Min", {value, scalar(high)});
    return line_of(value, parts.second);
  }
  Node* line_of(Node* x, const ClampedLine& line) {
    if (line.slope == -1 && line.shift != 0) return rewriter_.apply("Sub", {scalar(line.shift), x});
    if (line.slope == -1) x = rewriter_.apply("Neg", {x});
    else if (line.slope != 1) x = rewriter_.apply("Mul", {x, scalar(line.slope)});
    return line.shift == 0 ? x : rewriter_.apply("Add", {x, scalar(line.shift)});
  }

  bool is_covered() const {
    auto is_bound = [](double c) { return std::isinf(c) || is_moderate(c); };
    if (is_constant()) return is_moderate(line_.low);
    return line_.slope != 0 && is_moderate(line_.slope) && is_moderate(line_.shift) && is_bound(line_.low) &&
           is_bound(line_.high);
  }

  // What an operator that may be in a chain is applied to.
  static Node* operand_of(const Apply& apply) {
    if (apply.is("Neg") || apply.is("Relu")) return apply.input(0);
    if (apply.is("Clip")) {
      const bool known = (!apply.has_input(1) || number(apply.input(1))) && (!apply.has_input(2) || number(apply.input(2)));
      return known ? apply.input(0) : nullptr;
    }
    const bool commutes = apply.is("Add") || apply.is("Mul") || apply.is("Min") || apply.is("Max");
    if (apply.num_inputs() != 2 || (!commutes && !apply.is("Sub") && !apply.is("Div"))) return nullptr;
    auto factor = number(apply.input(1));
    if (factor && (*factor != 0 || (!apply.is("Mul") && !apply.is("Div")))) return apply.input(0);
    return apply.is("Sub") && number(apply.input(0)) ? apply.input(1) : nullptr;
  }
  void extend(const Apply& apply) {
    for (const Use& use : apply.operands()) {
      auto c = use.node ? number(use.node) : std::nullopt;
      is_readable_ = is_readable_ && (!c || is_moderate(*c));
    }
    if (apply.is("Neg")) return line_.multiply(-1);
    if (apply.is("Relu")) return line_.bound_below(0);
    if (apply.is("Clip")) {
      if (apply.has_input(1)) line_.bound_below(*number(apply.input(1)));
      if (apply.has_input(2)) line_.bound_above(*number(apply.input(2)));
      return;
    }
    const auto c = number(apply.input(1));
    if (apply.is("Add")) return line_.add(*c);
    if (apply.is("Mul")) return line_.multiply(*c);
    if (apply.is("Div")) return line_.multiply(1 / *c);
    if (apply.is("Max")) return line_.bound_below(*c);
    if (apply.is("Min")) return line_.bound_above(*c);
    if (c) return line_.add(-*c);
    line_.multiply(-1);
    line_.add(*number(apply.input(0)));
  }

  Node* source_;
  const Apply* reader_;
  ClampedLine line_;
};

// Where x lies when it compares so with a constant, and when it does not.
std::pair<Interval, Interval> intervals_of(std::string_view op, double c) {
  if (op == "Equal") return {{c, c}, {}};
  const Interval below{-kInfinity, c}, above{c, kInfinity};
  if (op.starts_with("Less")) return {below, above};
  return op.starts_with("Greater") ? std::pair(above, below) : std::pair<Interval, Interval>();
}

// A chain behind Where, or behind the 1 and 0 of a condition: two chains, each with what follows.
class Alternatives : NormalForm {
 public:
  Alternatives(Rewriter& rewriter, Apply& root, const Apply& choice, const Chain& outer) : NormalForm(rewriter, root), condition_(choice.input(0)) {
    const bool is_cast = choice.is("Cast");
    for (size_t i : {1u, 2u}) {
      chains_.emplace_back(rewriter, root, is_cast ? scalar(i == 1) : choice.input(i), &choice);
      chains_.back().extend(outer.line());
      is_readable_ = is_readable_ && chains_.back().is_readable();
    }
    for (const Apply* each : outer.operators()) count(each);
    count(&choice);
    for (const Chain& chain : chains_) std::ranges::for_each(chain.operators(), [&](const Apply* each) { count(each); });
    use_condition();
  }

  Node* shortened() {
    if (!is_readable_) return nullptr;
    Chain &first = chains_[0], &second = chains_[1];
    if (first.is_constant() && second.is_constant() && first.line().low == second.line().low) return constant_result(first.line().low);
    for (std::optional<Chain>& each : covering_) {
      if (each && each->cost() < num_operators()) return each->written();
    }
    if (1 + first.cost() + second.cost() >= num_operators()) return nullptr;
    return rewriter_.apply("Where", {condition_, first.written(), second.written()});
  }

  Node* compared(std::string_view op, double limit) {
    if (!is_readable_) return nullptr;
    const Verdict first = chains_[0].compare(op, limit), second = chains_[1].compare(op, limit);
    for (size_t i : {0u, 1u}) {
      if ((i == 0 ? first : second).known && !chains_[i].is_constant() && !chains_[i].is_number()) return nullptr;
    }
    if (first.known && second.known && *first.known != *second.known)
      return *first.known ? condition_ : rewriter_.apply("Not", {condition_});
    if (2 - first.known.has_value() - second.known.has_value() >= num_operators()) return nullptr;
    return rewriter_.apply("Where", {condition_, chains_[0].written(first), chains_[1].written(second)});
  }

 private:
  void use_condition() {
    const Apply* comparison = condition_->as_apply();
    const auto c = comparison && comparison->num_inputs() == 2 ? number(comparison->input(1)) : std::nullopt;
    if (!c) return;
    const auto [here, elsewhere] = intervals_of(comparison->op().name, *c);
    for (size_t i : {0u, 1u}) {
      if (chains_[i].source() != comparison->input(0)) continue;
      Chain there = chains_[i];
      there.restrict_to(i == 0 ? elsewhere : here);
      if (there.is_constant() && chains_[1 - i].is_constant() && there.line().low == chains_[1 - i].line().low)
        covering_[i].emplace(chains_[i]);
      chains_[i].restrict_to(i == 0 ? here : elsewhere);
    }
  }

  Node* condition_;
  boost::container::small_vector<Chain, 2> chains_;
  std::optional<Chain> covering_[2];  // one that is right for both
};

Node* shortened(Rewriter& rewriter, Apply& root) {
  Chain chain(rewriter, root, &root, nullptr);
  if (!chain.is_readable()) return nullptr;
  if (const Apply* choice = chain.choice()) {
    if (Node* result = Alternatives(rewriter, root, *choice, chain).shortened()) return result;
  }
  if (constant_tensor(chain.source())) return nullptr;  // left to constant folding
  if (chain.is_constant()) return chain.is_number() ? chain.constant_result(chain.line().low) : nullptr;
  return chain.cost() < static_cast<int>(chain.operators().size()) ? chain.written() : nullptr;
}

// The root compares a chain with a constant.
Node* compared(Rewriter& rewriter, Apply& root, std::string_view op, double limit) {
  Chain chain(rewriter, root, root.input(0), &root);
  if (!chain.is_readable() || !is_moderate(limit)) return nullptr;
  if (const Apply* choice = chain.choice()) return Alternatives(rewriter, root, *choice, chain).compared(op, limit);
  if (chain.operators().empty()) return nullptr;
  const Verdict verdict = chain.compare(op, limit);
  if (!verdict.known) return chain.written(verdict);
  auto shape = root.type()->static_shape();
  if (!shape || !chain.is_number()) return nullptr;
  return rewriter.apply("Expand", {chain.written(verdict), rewriter.integers(std::vector<int64_t>(shape->begin(), shape->end()))});
}

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

Node* shorten_clamped(Rewriter& rewriter, Apply& root) { return is_covered(root) ? shortened(rewriter, root) : nullptr; }
Node* compare_clamped(Rewriter& rewriter, Apply& root) {
  const Apply* operand = root.input(0)->as_apply();
  const auto limit = constant_tensor(root.input(1)) ? rewrite::splat_value(root.input(1)) : std::nullopt;
  if (limit && operand && is_covered(*operand) && root.type()->has_rank()) {
    if (Node* result = compared(rewriter, root, root.op().name, *limit)) return result;
  }
  const Type* type = root.input(0)->type();
  const bool is_float = type && type->is_tensor() && (type->dtype() == DType::F32 || type->dtype() == DType::F64);
  return is_float && root.type()->has_rank() ? LinearForm(rewriter, root, root.input(0), root.input(1)).compared() : nullptr;
}
// The sign of a clamped line whose bounds are on both sides of 0
Node* sign_of_clamped(Rewriter& rewriter, Apply& root) {
  if (!is_covered(root)) return nullptr;
  Chain chain(rewriter, root, root.input(0), &root);
  ClampedLine line = chain.line();
  if (!chain.is_readable() || line.low >= 0 || line.high <= 0 || line.shift == 0) return nullptr;
  const double zero = line.shift / line.slope;
  if (chain.operators().size() < 2 || !is_moderate(zero)) return nullptr;
  auto shift = rewrite::scalar_of(root.type()->dtype(), std::copysign(zero, line.shift));
  if (!shift) return nullptr;
  Node* constant = rewriter.constant(*std::move(shift));
  return rewriter.apply("Sign", {line.slope > 0 ? rewriter.apply("Add", {chain.source(), constant}) : rewriter.apply("Sub", {constant, chain.source()})});
}
// x ≠ 0
Node* truth_of_clamped(Rewriter& rewriter, Apply& root) {
  const Apply* operand = root.input(0)->as_apply();
  if (root.type()->dtype() != DType::Bool || !operand || !is_covered(*operand) || !root.type()->has_rank()) return nullptr;
  Node* is_zero = compared(rewriter, root, "Equal", 0);
  return is_zero ? rewriter.apply("Not", {is_zero}) : nullptr;
}

constexpr std::string_view kSum = "a sum of multiples = the same with fewer operators";
constexpr std::string_view kProduct = "a product of powers = the same with fewer operators";
constexpr std::string_view kClamped = "min(max(a · x + b, c), d) = the same with fewer operators";
constexpr std::string_view kCompared = "a comparison of sums, or of bounded ones = that of their difference, or known";

constexpr Rule kNormalForms[] = {
    {"shorter-sum", "Add", kSum, Promise::Real, shorten_sum},
    {"shorter-sum", "Sub", kSum, Promise::Real, shorten_sum},
    {"shorter-sum", "Neg", kSum, Promise::Real, shorten_sum},
    {"shorter-sum", "Mul", kSum, Promise::Real, shorten_sum},
    {"shorter-sum", "Div", kSum, Promise::Real, shorten_sum},
    {"shorter-product", "Mul", kProduct, Promise::Real, shorten_product},
    {"shorter-product", "Div", kProduct, Promise::Real, shorten_product},
    {"shorter-product", "Reciprocal", kProduct, Promise::Real, shorten_product},
    {"shorter-product", "Neg", kProduct, Promise::Real, shorten_product},
    {"shorter-clamp", "Add", kClamped, Promise::Real, shorten_clamped},
    {"shorter-clamp", "Sub", kClamped, Promise::Real, shorten_clamped},
    {"shorter-clamp", "Neg", kClamped, Promise::Real, shorten_clamped},
    {"shorter-clamp", "Mul", kClamped, Promise::Real, shorten_clamped},
    {"shorter-clamp", "Div", kClamped, Promise::Real, shorten_clamped},
    {"shorter-clamp", "Min", kClamped, Promise::Real, shorten_clamped},
    {"shorter-clamp", "Max", kClamped, Promise::Real, shorten_clamped},
    {"shorter-clamp", "Relu", kClamped, Promise::Real, shorten_clamped},
    {"shorter-clamp", "Where", kClamped, Promise::Real, shorten_clamped},
    {"shorter-clamp", "Clip", kClamped, Promise::Real, shorten_clamped},
    {"compare-clamped", "Less", kCompared, Promise::Real, compare_clamped},
    {"compare-clamped", "LessOrEqual", kCompared, Promise::Real, compare_clamped},
    {"compare-clamped", "Greater", kCompared, Promise::Real, compare_clamped},
    {"compare-clamped", "GreaterOrEqual", kCompared, Promise::Real, compare_clamped},
    {"sign-of-clamped", "Sign", "sign(min(max(a · x + b, −c), d)) = sign(x + b / a)", Promise::Real, sign_of_clamped},
    {"compare-clamped", "Cast", kCompared, Promise::Real, truth_of_clamped},
    {"compare-clamped", "Equal", kCompared, Promise::Real, compare_clamped},
};

}  // namespace

std::span<const Rule> normal_form_rules() { return kNormalForms; }

}  // namespace anfora::passes
