// Small regions that compute a piecewise linear function, as the smallest expression of it.
//
//     Less(Where(p, x, Max(x, 0)), 0)    =    And(Less(x, 0), p)
//     Sign(Max(x, −1) + 1)               =    Cast(x > −1)
//
// A region ends in its root, and has other operators that nobody reads outside of it: sums, bounds, choices, comparisons and truth
// values. What it reads are its leaves; of them the ranges are known. src/analysis/piecewise.h finds the smallest expression of
// the same function, which takes the region's place where it has fewer operators. So it ends.
//
// Leaves have the shape of the root, as rules may drop some. Constants are single numbers that neither get lost beside others nor
// lose others. A region of up to kMostInRegion is tried as a whole and with only the operators that are nearest to its root.
#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cmath>
#include <optional>

#include "analysis/piecewise.h"
#include "ir/queries.h"
#include "passes/simplify/engines.h"
#include "rewrite/match.h"

namespace anfora::passes {
namespace {

using namespace ir;
using analysis::PiecewiseExpression;
using rewrite::Promise;
using rewrite::Rewriter;
using rewrite::Rule;
using Op = PiecewiseExpression::Op;
using Step = PiecewiseExpression::Step;

constexpr size_t kMostInRegion = 6;
// Bounds of leaves are rounded outwards to whole numbers up to this, so that more regions are alike.
constexpr double kMostBound = 4;

DType dtype_of(const Node* node) { return node->type() && node->type()->is_tensor() ? node->type()->dtype() : DType::Undefined; }
bool is_condition(const Node* node) { return dtype_of(node) == DType::Bool; }
bool is_real(const Node* node) { return dtype_of(node) == DType::F32 || dtype_of(node) == DType::F64; }

// A constant that is one number.
std::optional<double> number(const Node* node) {
  const auto c = rewrite::splat_value(node);
  return c && analysis::SmallestExpressions::takes(*c) ? c : std::nullopt;
}

// Which function the application is; of Cast, in which direction.
Op function_of(const Apply& apply) {
  const Op op = apply.op().piecewise;
  if (op == Op::None || apply.num_inputs() == 0) return Op::None;
  if (op != Op::Cast) return op;
  const bool from = is_condition(apply.input(0)), to = is_condition(&apply);
  return from == to ? Op::None : to ? Op::Truth : Op::Number;
}

class Region {
 public:
  Region(Rewriter& rewriter, Apply& root) : rewriter_(rewriter), root_(root) {
    if (takes(root)) inner_.push_back(&root);
    for (size_t i = 0; i < inner_.size(); ++i) {
      for (const Use& use : inner_[i]->operands()) {
        const Apply* apply = use.node->as_apply();
        if (!apply || inner_.size() == kMostInRegion || std::ranges::count(inner_, apply) || !takes(*apply)) continue;
        const bool is_inside = std::ranges::all_of(apply->uses(), [&](const Use& by) { return std::ranges::count(inner_, by.user); });
        if (is_inside) inner_.push_back(apply);
      }
    }
  }

  Node* shortened() {
    const auto all = inner_;
    for (size_t size = all.size(); size >= 1; --size) {
      inner_.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(size));
      if (!read()) continue;
      auto* smaller = rewriter_.smallest_expressions().smaller(expression_, static_cast<int>(size));
      if (smaller) return write(*smaller);
    }
    return nullptr;
  }

 private:
  // Whether the operator may be within: of operands of its shape, or of one number.
  bool takes(const Apply& apply) {
    const Op op = function_of(apply);
    if (op == Op::None || !same_shape(apply, root_)) return false;
    if (!is_condition(&apply) && !has_type(&apply)) return false;
    bool has_bounds = op != Op::Clip || (apply.has_input(1) || apply.has_input(2));
    size_t varying = 0;
    for (const Use& use : apply.operands()) {
      const Value* value = use.node->as_value();
      if (value && value->is_none()) continue;
      if (!is_condition(use.node) && !has_type(use.node)) return false;
      if (number(use.node)) continue;
      if (constant_tensor(use.node) || !same_shape(*use.node, root_)) return false;
      ++varying;
      has_bounds = has_bounds && (op != Op::Clip || varying == 1);
    }
    if (op == Op::LeakyRelu) return analysis::SmallestExpressions::takes(slope_of(apply));
    if (op == Op::Div) return varying == 1 && number(apply.input(1)).value_or(0) != 0;
    if (op == Op::Mul) return varying == 1 || std::ranges::any_of(apply.operands(), [](const Use& u) { return is_step(u.node); });
    if (apply.num_inputs() != 2 && (op == Op::Min || op == Op::Max)) return false;
    if (op == Op::Clip && apply.has_input(1) && apply.has_input(2) && has_bounds) {
      auto low = number(apply.input(1)), high = number(apply.input(2));
      return low && high && *low <= *high && varying == 1;
    }
    return has_bounds && varying > 0;
  }
  static double slope_of(const Apply& apply) { return apply.attributes().get_float("alpha", 0.01F); }
  // A function that has a few values.
  static bool is_step(const Node* node) {
    const Apply* apply = node->as_apply();
    if (!apply) return false;
    const Op op = function_of(*apply);
    if (op == Op::Where) return number(apply->input(1)) && number(apply->input(2));
    return op == Op::Sign || op == Op::Number;
  }
  bool has_type(const Node* node) {
    if (!is_real(node)) return false;
    if (dtype_ == DType::Undefined) dtype_ = dtype_of(node);
    return dtype_of(node) == dtype_;
  }

  // The inner operators as steps. A sum of multiples is left to normal forms; a single operator may be told by the range of a leaf.
  bool read() {
    if (std::ranges::all_of(inner_, [](const Apply* apply) { return is_linear(apply->op()); })) return false;
    leaves_.clear();
    expression_ = {};
    for (const Apply* apply : inner_) {
      for (const Use& use : apply->operands()) {
        const Value* value = use.node->as_value();
        const bool is_leaf = !(value && value->is_none()) && !number(use.node) && !is_inner(use.node);
        if (is_leaf && !std::ranges::count(leaves_, use.node)) leaves_.push_back(use.node);
      }
    }
    const auto conditions = static_cast<size_t>(std::ranges::count_if(leaves_, is_condition));
    if (leaves_.empty() || conditions > analysis::SmallestExpressions::kMostConditions ||
        leaves_.size() - conditions > analysis::SmallestExpressions::kMostNumbers)
      return false;
    for (Node* leaf : leaves_) {
      expression_.steps.push_back({Op::Leaf, {}, is_condition(leaf)});
      expression_.domains.push_back(domain_of(leaf));
    }
    const bool is_told = std::ranges::any_of(expression_.domains, [](const PiecewiseExpression::Domain& domain) {
      return (domain.low == domain.high && domain.may_be_nan) || domain.excludes_low;
    });
    if (inner_.size() == 1 && !is_told) return false;
    places_.clear();
    step_of(&root_);
    return true;
  }
  bool is_inner(const Node* node) const { return std::ranges::count(inner_, node) > 0; }

  PiecewiseExpression::Domain domain_of(const Node* leaf) {
    if (is_condition(leaf)) return {};
    const analysis::ValueRange range = rewriter_.ordinary_range(leaf);
    const bool finite = rewriter_.assumes_finite();
    auto outwards = [](double bound, double sign) {  // of a lower bound; an upper one is that of −x
      const double whole = std::min(std::floor(sign * bound), kMostBound);
      return sign * (whole < -kMostBound ? -std::numeric_limits<double>::infinity() : whole);
    };
    const bool is_bounded = std::isfinite(range.low) && std::isfinite(range.high);
    const double low = outwards(range.low, 1);
    return {low, outwards(range.high, -1), range.may_be_nan && !finite, !is_bounded && !finite, low == 0 && range.is_positive()};
  }

  uint8_t put(const Step& step) {
    expression_.steps.push_back(step);
    return static_cast<uint8_t>(expression_.steps.size() - 1);
  }
  uint8_t constant(double c, bool is_condition) { return put({Op::Constant, {}, is_condition, c}); }
  uint8_t step_of(Node* node) {
    if (auto at = std::ranges::find(leaves_, node); at != leaves_.end()) return static_cast<uint8_t>(at - leaves_.begin());
    if (auto c = number(node)) return constant(*c, is_condition(node));
    if (auto known = std::ranges::find(places_, node, &std::pair<Node*, uint8_t>::first); known != places_.end()) return known->second;
    const uint8_t place = put(as_step(*node->as_apply()));
    places_.emplace_back(node, place);
    return place;
  }
  Step as_step(Apply& apply) {
    Step step{function_of(apply), {}, is_condition(&apply)};
    const uint8_t first = step_of(apply.input(0));
    step.operands[0] = first;
    switch (step.op) {
      case Op::LeakyRelu: {  // max(x, slope · x), or the smaller one
        const double slope = slope_of(apply);
        const uint8_t factor = constant(slope, false);
        step.op = slope > 1 ? Op::Min : Op::Max;
        step.operands[1] = put({Op::Mul, {first, factor}});
        return step;
      }
      case Op::Div:
        step.op = Op::Mul;
        step.operands[1] = constant(1 / *number(apply.input(1)), false);
        return step;
      case Op::Greater:
      case Op::GreaterOrEqual:
        step.op = step.op == Op::Greater ? Op::Less : Op::LessOrEqual;
        step.operands = {step_of(apply.input(1)), first};
        return step;
      case Op::Clip:
        if (apply.has_input(1) && apply.has_input(2)) break;
        step.op = apply.has_input(1) ? Op::Max : Op::Min;
        step.operands[1] = step_of(apply.input(apply.has_input(1) ? 1 : 2));
        return step;
      default: break;
    }
    for (size_t i = 1; i < apply.num_inputs(); ++i) step.operands[i] = step_of(apply.input(i));
    return step;
  }

  // An expression as operators; null where a number is not one of the element type, or the shape is not known.
  Node* write(const PiecewiseExpression& expression) {
    boost::container::small_vector<Node*, 8> nodes;
    for (const Step& step : expression.steps) {
      Node* node = step.op == Op::Leaf       ? leaves_[nodes.size()]
                   : step.op == Op::Constant ? constant_of(step.number, step.is_condition)
                                             : application(step, nodes);
      if (!node) return nullptr;
      nodes.push_back(node);
    }
    if (expression.steps.back().op != Op::Constant) return nodes.back();
    auto shape = root_.type()->static_shape();
    if (!shape) return nullptr;
    return rewriter_.apply("Expand", {nodes.back(), rewriter_.integers(std::vector<int64_t>(shape->begin(), shape->end()))});
  }
  Node* constant_of(double c, bool is_condition) {
    if (is_condition) return rewriter_.constant(Tensor::scalar(c != 0));
    auto tensor = rewrite::scalar_of(dtype_, c);
    return tensor ? rewriter_.constant(*std::move(tensor)) : nullptr;
  }
  Node* application(const Step& step, std::span<Node* const> nodes) {
    boost::container::small_vector<Node*, 3> operands;
    const size_t arity = step.op == Op::Clip || step.op == Op::Where ? 3 : is_unary(step.op) ? 1 : 2;
    for (size_t i = 0; i < arity; ++i) operands.push_back(nodes[step.operands[i]]);
    AttributeSet attributes;
    if (step.op == Op::Number) attributes = attributes.with("to", static_cast<int64_t>(dtype_));
    if (step.op == Op::Truth) attributes = attributes.with("to", static_cast<int64_t>(DType::Bool));
    return rewriter_.apply(operator_of(step.op), operands, attributes);
  }
  const Operator& operator_of(Op function) const {
    const Op declared = function == Op::Number || function == Op::Truth ? Op::Cast : function;
    const auto operators = rewriter_.context().operators();
    return **std::ranges::find(operators, declared, &Operator::piecewise);
  }
  static bool is_unary(Op op) {
    constexpr Op kUnary[] = {Op::Neg, Op::Abs, Op::Relu, Op::Sign, Op::Number, Op::Truth, Op::Not};
    return std::ranges::count(kUnary, op) > 0;
  }

  Rewriter& rewriter_;
  Apply& root_;
  DType dtype_ = DType::Undefined;  // of all numbers
  boost::container::small_vector<const Apply*, kMostInRegion> inner_;
  boost::container::small_vector<Node*, 5> leaves_;
  boost::container::small_vector<std::pair<Node*, uint8_t>, kMostInRegion> places_;
  PiecewiseExpression expression_;
};

Node* shorten_region(Rewriter& rewriter, Apply& root) { return Region(rewriter, root).shortened(); }

bool is_piecewise(const Operator& op) { return op.piecewise != Op::None; }

constexpr Rule kPiecewise[] = {
    {"shorter-region", is_piecewise, "a piecewise linear function = the same with fewer operators", Promise::Real, shorten_region},
};

}  // namespace

std::span<const Rule> piecewise_rules() { return kPiecewise; }

}  // namespace anfora::passes
