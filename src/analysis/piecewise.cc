#include "analysis/piecewise.h"

#include <algorithm>
#include <bit>
#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cmath>
#include <limits>
#include <span>

#include "support/function_ref.h"
#include "support/hash.h"

namespace anfora::analysis {

namespace {

using Expression = PiecewiseExpression;
using Op = Expression::Op;
using Step = Expression::Step;

constexpr size_t kAxes = SmallestExpressions::kMostNumbers;
constexpr double kUnbounded = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();

constexpr size_t kMostPieces = 12;       // linear functions that a step may be
constexpr size_t kMostHyperplanes = 24;  // of an expression
constexpr size_t kMostPoints = 6000;     // of a proof
constexpr size_t kMostCompared = 40;     // of them, before a proof
constexpr int kMostRestarts = 8;           // of a search
constexpr size_t kMostConstants = 14;    // of a search

// Numbers of so small a difference are equal: points, constants and slopes lie further apart.
constexpr double kTolerance = 1e-9;
bool is_near(double a, double b) {
  const double difference = std::abs(a - b);
  return a == b || (difference < kUnbounded && difference <= kTolerance * std::max({1.0, std::abs(a), std::abs(b)}));
}
bool is_same(double a, double b) { return is_near(a, b) || (std::isnan(a) && std::isnan(b)); }

// One operator ----------------------------------------------------------------------------------------------------------------

double compute(Op op, double a, double b, double c) {
  const bool no_number = std::isnan(a) || std::isnan(b);
  switch (op) {
    case Op::Add: return a + b;
    case Op::Sub: return a - b;
    case Op::Mul: return a * b;
    case Op::Min: return no_number ? kNaN : std::min(a, b);
    case Op::Max: return no_number ? kNaN : std::max(a, b);
    case Op::Neg: return -a;
    case Op::Abs: return std::abs(a);
    case Op::Relu: return a < 0 ? 0 : a;
    case Op::Sign: return std::isnan(a) ? a : is_near(a, 0) ? 0 : a > 0 ? 1 : -1;
    case Op::Clip: return a < b ? b : a > c ? c : a;
    case Op::Where: return a != 0 ? b : c;
    case Op::Number: return a;
    case Op::Less: return a < b && !is_near(a, b);
    case Op::LessOrEqual: return a < b || is_near(a, b);
    case Op::Equal: return is_near(a, b);
    case Op::Truth: return !is_near(a, 0);
    case Op::And: return a * b;
    case Op::Or: return std::max(a, b);
    case Op::Xor: return a != b;
    case Op::Not: return 1 - a;
    default: break;  // no step of an expression computes it
  }
  return kNaN;
}

// What the search makes: an operator with the sorts of its operands.
enum class Sort : uint8_t { None, Number, Condition, Constant };
struct Maker {
  Op op;
  std::array<Sort, 3> operands;
  bool gives_condition = false, commutes = false;
  size_t arity() const { return static_cast<size_t>(std::ranges::find(operands, Sort::None) - operands.begin()); }
};
using enum Sort;
constexpr Maker kMakers[] = {
    {Op::Relu, {Number}},
    {Op::Neg, {Number}},
    {Op::Abs, {Number}},
    {Op::Sign, {Number}},
    {Op::Number, {Condition}},
    {Op::Min, {Number, Number}, false, true},
    {Op::Max, {Number, Number}, false, true},
    {Op::Add, {Number, Number}, false, true},
    {Op::Sub, {Number, Number}},
    {Op::Mul, {Number, Constant}},
    {Op::Clip, {Number, Constant, Constant}},
    {Op::Where, {Condition, Number, Number}},
    {Op::Not, {Condition}, true},
    {Op::Less, {Number, Number}, true},
    {Op::LessOrEqual, {Number, Number}, true},
    {Op::Equal, {Number, Number}, true, true},
    {Op::Truth, {Number}, true},
    {Op::And, {Condition, Condition}, true, true},
    {Op::Or, {Condition, Condition}, true, true},
    {Op::Xor, {Condition, Condition}, true, true},
};

// Linear forms ----------------------------------------------------------------------------------------------------------------

// Σ coefficient · axis + the last.
struct Form : std::array<double, kAxes + 1> {
  bool is_constant() const { return std::all_of(begin(), begin() + kAxes, [](double c) { return c == 0; }); }
};
using Forms = boost::container::small_vector<Form, 16>;

Form combined(const Form& f, double x, const Form& g, double y) {
  Form sum;
  for (size_t i = 0; i < sum.size(); ++i) {
    sum[i] = x * f[i] + y * g[i];
    if (is_near(sum[i], 0)) sum[i] = 0;
  }
  return sum;
}
void insert(Forms& forms, const Form& form) {
  auto same = [&](const Form& f) { return std::ranges::equal(f, form, is_near); };
  if (std::ranges::none_of(forms, same)) forms.push_back(form);
}
// Where the form is 0.
void insert_hyperplane(Forms& hyperplanes, const Form& form) {
  if (form.is_constant()) return;
  const double first = *std::ranges::find_if(form, [](double c) { return c != 0; });
  insert(hyperplanes, combined(form, 1 / first, form, 0));
}

// The linear forms that each step is, on one cell or another, and the hyperplanes between the cells.
struct Pieces {
  Forms of_result, hyperplanes;
};
std::optional<Pieces> pieces_of(const Expression& expression) {
  Pieces pieces;
  boost::container::small_vector<Forms, 16> of_step;
  size_t axis = 0;
  const Forms truths = {Form{}, [] { Form one{}; one[kAxes] = 1; return one; }()};
  for (const Step& step : expression.steps) {
    Forms& own = of_step.emplace_back();
    auto operand = [&](size_t i) -> const Forms& { return of_step[step.operands[i]]; };
    auto crossings = [&](const Forms& a, const Forms& b) {
      for (const Form& f : a)
        for (const Form& g : b) insert_hyperplane(pieces.hyperplanes, combined(f, 1, g, -1));
    };
    auto copy = [&](const Forms& forms) { std::ranges::for_each(forms, [&](const Form& f) { insert(own, f); }); };
    auto combine = [&](double x, double y) {
      for (const Form& f : operand(0))
        for (const Form& g : operand(1)) insert(own, combined(f, x, g, y));
    };
    const Forms zero = {Form{}};
    switch (step.op) {
      case Op::Leaf:
        if (step.is_condition) copy(truths);
        else own.push_back({}), own[0][axis++] = 1;
        break;
      case Op::Constant: own.push_back({}), own[0][kAxes] = step.number; break;
      case Op::Add: combine(1, 1); break;
      case Op::Sub: combine(1, -1); break;
      case Op::Mul:
        for (const Form& f : operand(0)) {
          for (const Form& g : operand(1)) {
            if (!f.is_constant() && !g.is_constant()) return std::nullopt;
            insert(own, f.is_constant() ? combined(g, f[kAxes], g, 0) : combined(f, g[kAxes], f, 0));
          }
        }
        break;
      case Op::Min:
      case Op::Max: crossings(operand(0), operand(1)), copy(operand(0)), copy(operand(1)); break;
      case Op::Neg: std::ranges::for_each(operand(0), [&](const Form& f) { insert(own, combined(f, -1, f, 0)); }); break;
      case Op::Abs:
        crossings(operand(0), zero), copy(operand(0));
        std::ranges::for_each(operand(0), [&](const Form& f) { insert(own, combined(f, -1, f, 0)); });
        break;
      case Op::Relu: crossings(operand(0), zero), copy(operand(0)), copy(zero); break;
      case Op::Sign: crossings(operand(0), zero), copy(truths), insert(own, combined(truths[1], -1, zero[0], 0)); break;
      case Op::Clip:
        for (size_t i : {1u, 2u}) crossings(operand(0), operand(i)), copy(operand(i));
        copy(operand(0));
        break;
      case Op::Where: copy(operand(1)), copy(operand(2)); break;
      case Op::Less:
      case Op::LessOrEqual:
      case Op::Equal: crossings(operand(0), operand(1)), copy(truths); break;
      case Op::Truth: crossings(operand(0), zero), copy(truths); break;
      case Op::Number:
      case Op::And:
      case Op::Or:
      case Op::Xor:
      case Op::Not: copy(truths); break;
      default: return std::nullopt;  // expressions have none
    }
    if (own.size() > kMostPieces || pieces.hyperplanes.size() > kMostHyperplanes) return std::nullopt;
  }
  pieces.of_result = of_step.back();
  return pieces;
}

// Points ----------------------------------------------------------------------------------------------------------------------

using Point = std::array<double, kAxes>;

// Two points or more on each cell that the hyperplanes of the first axes make. False: they are too many.
bool sample(const Forms& hyperplanes, size_t axes, std::vector<Point>& points) {
  if (axes == 0) {
    points.push_back({});
    return true;
  }
  const size_t last = axes - 1;
  Forms below;
  for (size_t i = 0; i < hyperplanes.size(); ++i) {
    const Form& f = hyperplanes[i];
    if (f[last] == 0) insert_hyperplane(below, f);
    for (size_t j = 0; f[last] != 0 && j < i; ++j) {
      const Form& g = hyperplanes[j];
      if (g[last] != 0) insert_hyperplane(below, combined(f, g[last], g, -f[last]));
    }
  }
  std::vector<Point> base;
  if (!sample(below, last, base)) return false;
  std::vector<double> zeros;
  for (Point point : base) {
    zeros.clear();
    for (const Form& f : hyperplanes) {
      if (f[last] == 0) continue;
      double rest = f[kAxes];
      for (size_t i = 0; i < last; ++i) rest += f[i] * point[i];
      zeros.push_back(-rest / f[last]);
    }
    std::ranges::sort(zeros);
    zeros.erase(std::unique(zeros.begin(), zeros.end(), is_near), zeros.end());
    auto put = [&](double at) {
      point[last] = at;
      points.push_back(point);
    };
    const double first = zeros.empty() ? 0 : zeros.front(), end = zeros.empty() ? 0 : zeros.back();
    put(first - 1.25), put(end + 1.375), put(first - 7.5), put(end + 8.625);
    for (size_t i = 0; i < zeros.size(); ++i) {
      put(zeros[i]);
      if (i == 0) continue;
      const double width = zeros[i] - zeros[i - 1];
      put(zeros[i - 1] + width * 0.375), put(zeros[i - 1] + width * 0.75);
    }
    if (points.size() > kMostPoints) return false;
  }
  return true;
}

// Values of the leaves, case by case: each condition, each number, NaN and infinity that may be.
using Leaves = boost::container::small_vector<double, 5>;
class Cases {
 public:
  explicit Cases(const Expression& expression) {
    for (size_t i = 0; i < expression.domains.size(); ++i) leaves_.push_back({expression.steps[i].is_condition, expression.domains[i]});
  }
  bool enumerate(const Forms& hyperplanes, std::vector<Leaves>& points) { return choose(0, hyperplanes, {}, points); }

 private:
  struct Leaf {
    bool is_condition;
    Expression::Domain domain;
  };
  static constexpr double kAnyNumber = 1e300;  // to be sampled

  bool choose(size_t at, const Forms& hyperplanes, Leaves chosen, std::vector<Leaves>& points) {
    if (at == leaves_.size()) return fill(hyperplanes, chosen, points);
    auto with = [&](double value) {
      Leaves next = chosen;
      next.push_back(value);
      return choose(at + 1, hyperplanes, std::move(next), points);
    };
    const auto& [is_condition, domain] = leaves_[at];
    if (is_condition) return with(0) && with(1);
    if (!with(kAnyNumber) || (domain.may_be_nan && !with(kNaN))) return false;
    if (!domain.may_be_infinite) return true;
    return (domain.low > -kUnbounded || with(-kUnbounded)) && (domain.high < kUnbounded || with(kUnbounded));
  }
  bool fill(const Forms& hyperplanes, const Leaves& chosen, std::vector<Leaves>& points) {
    boost::container::small_vector<size_t, kAxes> sampled;  // leaves, with the axis that each is
    boost::container::small_vector<size_t, kAxes> axis_of;
    size_t axis = 0;
    for (size_t i = 0; i < leaves_.size(); ++i) {
      if (leaves_[i].is_condition) continue;
      if (chosen[i] == kAnyNumber) sampled.push_back(i), axis_of.push_back(axis);
      ++axis;
    }
    Forms own;
    auto keep = [&](const Form& form) {  // those of what is sampled, with its axes first
      Form moved{};
      moved[kAxes] = form[kAxes];
      for (size_t i = 0; i < axis_of.size(); ++i) moved[i] = form[axis_of[i]];
      const auto count = [](const Form& f) { return std::count_if(f.begin(), f.begin() + kAxes, [](double c) { return c != 0; }); };
      if (count(moved) == count(form)) insert_hyperplane(own, moved);
    };
    std::ranges::for_each(hyperplanes, keep);
    for (size_t i = 0; i < sampled.size(); ++i) {
      for (double bound : {leaves_[sampled[i]].domain.low, leaves_[sampled[i]].domain.high}) {
        if (std::isinf(bound)) continue;
        Form at_bound{};
        at_bound[i] = 1;
        at_bound[kAxes] = -bound;
        insert_hyperplane(own, at_bound);
      }
    }
    std::vector<Point> samples;
    if (!sample(own, sampled.size(), samples)) return false;
    for (const Point& point : samples) {
      Leaves values = chosen;
      bool is_inside = true;
      for (size_t i = 0; i < sampled.size(); ++i) {
        const Expression::Domain& domain = leaves_[sampled[i]].domain;
        const double x = values[sampled[i]] = point[i];
        const bool is_lowest = is_near(x, domain.low);
        is_inside = is_inside && (is_lowest ? !domain.excludes_low : x >= domain.low) && (x <= domain.high || is_near(x, domain.high));
      }
      if (is_inside) points.push_back(std::move(values));
    }
    return points.size() <= kMostPoints;
  }

  boost::container::small_vector<Leaf, 5> leaves_;
};

double value_at(const Expression& expression, const Leaves& leaves) {
  boost::container::small_vector<double, 16> values;
  for (const Step& step : expression.steps) {
    auto operand = [&](size_t i) { return step.operands[i] < values.size() ? values[step.operands[i]] : 0; };
    values.push_back(step.op == Op::Leaf       ? leaves[values.size()]
                     : step.op == Op::Constant ? step.number
                                               : compute(step.op, operand(0), operand(1), operand(2)));
  }
  return values.back();
}

// Whether both are the same function, where `hyperplanes` are those of the first. If they are found to differ, where they do.
struct Verdict {
  bool are_equal = false;
  std::optional<Leaves> counterexample;
};
Verdict compare(const Expression& a, const Forms& hyperplanes, const Expression& b) {
  auto pieces = pieces_of(b);
  if (!pieces) return {};
  for (const Form& each : hyperplanes) insert(pieces->hyperplanes, each);
  std::vector<Leaves> points;
  if (!Cases(a).enumerate(pieces->hyperplanes, points)) return {};
  auto differs = std::ranges::find_if(points, [&](const Leaves& p) { return !is_same(value_at(a, p), value_at(b, p)); });
  return differs == points.end() ? Verdict{true, {}} : Verdict{false, *differs};
}

// The search ------------------------------------------------------------------------------------------------------------------

class Search {
 public:
  Search(const Expression& wanted, int operators) : wanted_(wanted), operators_(operators) {}

  // Terms that have the same values at the points are taken for the same. A point that shows a mistake joins them, and the search
  // starts again (A. Solar-Lezama et al., "Combinatorial sketching for finite programs", 2006).
  std::optional<Expression> run() {
    auto pieces = pieces_of(wanted_);
    std::vector<Leaves> points;
    if (!pieces || !Cases(wanted_).enumerate(pieces->hyperplanes, points)) return std::nullopt;
    if (points.empty()) return std::nullopt;
    pieces_ = *std::move(pieces);
    const size_t stride = (points.size() + kMostCompared - 1) / kMostCompared;
    for (size_t i = 0; i < points.size(); i += stride) points_.push_back(points[i]);
    for (int round = 0; round < kMostRestarts && !found_; ++round) {
      const size_t num_points = points_.size();
      enumerate();
      if (points_.size() == num_points) break;
    }
    return found_;
  }

 private:
  struct Term {
    Step step;
    bool is_condition() const { return step.is_condition; }
    bool is_constant() const { return step.op == Op::Constant; }
  };
  void enumerate() {
    target_.clear(), values_.clear(), terms_.clear(), operands_.clear(), seen_.clear();
    num_points_ = points_.size();
    for (const Leaves& leaves : points_) target_.push_back(value_at(wanted_, leaves));
    enter_leaves();
    for (size_t i = 0; i < num_leaves_; ++i) {
      if (terms_[i].is_condition() == is_condition() && is_target(i) && accept_leaf(static_cast<uint32_t>(i))) return;
    }
    const int most = std::min(operators_ - 1, SmallestExpressions::kMostFound);
    if (most >= 1) grow(0, most >= 2);
    if (!is_over() && most >= 2) grow(num_leaves_, false);
  }
  // Found, or misled.
  bool is_over() const { return found_ || points_.size() > num_points_; }

  bool is_condition() const { return wanted_.steps.back().is_condition; }
  double value(size_t term, size_t point) const { return values_[term * num_points_ + point]; }
  bool is_target(size_t term) const {
    for (size_t i = 0; i < num_points_; ++i) {
      if (!is_same(value(term, i), target_[i])) return false;
    }
    return true;
  }

  // Leaves, and the constants that occur in the expression, or that its pieces tell.
  void enter_leaves() {
    for (size_t i = 0; i < wanted_.domains.size(); ++i) {
      terms_.push_back({wanted_.steps[i]});
      for (const Leaves& leaves : points_) values_.push_back(leaves[i]);
    }
    std::vector<double> constants;
    auto put = [&](double c) {
      if (!SmallestExpressions::takes(c)) return;
      const bool is_known = std::ranges::any_of(constants, [&](double other) { return is_near(c, other); });
      if (!is_known && constants.size() < kMostConstants) constants.push_back(c == 0 ? 0 : c);
    };
    for (double c : {0.0, 1.0, -1.0}) put(c);
    for (const Step& step : wanted_.steps) {
      if (step.op == Op::Constant && !step.is_condition) put(step.number);
    }
    for (const Form& piece : pieces_.of_result) {
      put(piece[kAxes]);
      for (size_t i = 0; i < kAxes; ++i) put(piece[i]);
    }
    for (const Form& plane : pieces_.hyperplanes) {
      const auto used = std::count_if(plane.begin(), plane.begin() + kAxes, [](double c) { return c != 0; });
      put(used == 1 ? -plane[kAxes] : plane[kAxes]);
    }
    for (size_t i = 0, n = constants.size(); i < n; ++i) put(-constants[i]);
    std::ranges::sort(constants);
    for (double c : constants) enter_constant(c, false);
    for (double c : {0.0, 1.0}) enter_constant(c, true);
    num_leaves_ = terms_.size();
  }
  void enter_constant(double c, bool is_condition) {
    terms_.push_back({{Op::Constant, {}, is_condition, c}});
    values_.insert(values_.end(), num_points_, c);
  }

  // Applications that have one operand of the terms from `newest` on, the others leaves: each is compared with the target, and
  // kept where it is to be an operand itself.
  void grow(size_t newest, bool keep) {
    const size_t end = terms_.size();
    for (const Maker& maker : kMakers) {
      if (!keep && maker.gives_condition != is_condition()) continue;
      const size_t arity = maker.arity();
      for (size_t place = 0; place < (maker.commutes ? 1 : arity); ++place) {
        for (size_t term = newest; term < end && !is_over(); ++term) {
          if (terms_[term].is_constant() || !fits(maker.operands[place], term)) continue;
          std::array<uint32_t, 3> operands{};
          operands[place] = static_cast<uint32_t>(term);
          choose(maker, arity, place, 0, operands, keep);
        }
      }
    }
  }
  bool fits(Sort sort, size_t term) const {
    if (sort != Number && terms_[term].is_constant() != (sort == Constant)) return false;
    return terms_[term].is_condition() == (sort == Condition);
  }
  void choose(const Maker& maker, size_t arity, size_t place, size_t at, std::array<uint32_t, 3>& operands, bool keep) {
    if (at == place) ++at;
    if (at >= arity) return make(maker, arity, operands, keep);
    for (size_t i = 0; i < num_leaves_ && !is_over(); ++i) {
      if (!fits(maker.operands[at], i)) continue;
      operands[at] = static_cast<uint32_t>(i);
      choose(maker, arity, place, at + 1, operands, keep);
    }
  }
  void make(const Maker& maker, size_t arity, const std::array<uint32_t, 3>& operands, bool keep) {
    if (maker.op == Op::Clip && value(operands[1], 0) >= value(operands[2], 0)) return;
    auto at = [&](size_t point) {
      return compute(maker.op, value(operands[0], point), arity > 1 ? value(operands[1], point) : 0, arity > 2 ? value(operands[2], point) : 0);
    };
    Step step{maker.op, {}, maker.gives_condition};
    bool is_equal = maker.gives_condition == is_condition();
    for (size_t i = 0; is_equal && i < num_points_; ++i) is_equal = is_same(at(i), target_[i]);
    if (is_equal && accept(std::span(operands).first(arity), step)) return;
    if (!keep) return;
    uint64_t hash = maker.gives_condition;
    row_.resize(num_points_);
    for (size_t i = 0; i < num_points_; ++i) {
      row_[i] = at(i);
      hash = hash_combine(hash, std::bit_cast<uint32_t>(static_cast<float>(row_[i] + 0.0)));
    }
    if (!seen_.insert(hash).second) return;
    operands_.push_back(operands);
    terms_.push_back({step});
    values_.insert(values_.end(), row_.begin(), row_.end());
  }

  // Writes down the operator, and proves it.
  bool accept(std::span<const uint32_t> operands, Step step) {
    Expression candidate = leaves();
    for (size_t i = 0; i < operands.size(); ++i) step.operands[i] = write(candidate, operands[i]);
    candidate.steps.push_back(step);
    return prove(std::move(candidate));
  }
  bool accept_leaf(uint32_t term) {
    Expression candidate = leaves();
    candidate.steps.resize(write(candidate, term) + 1u);
    return prove(std::move(candidate));
  }
  Expression leaves() const {
    return {wanted_.domains, {wanted_.steps.begin(), wanted_.steps.begin() + static_cast<std::ptrdiff_t>(wanted_.domains.size())}};
  }
  uint8_t write(Expression& into, uint32_t term) {
    if (term < wanted_.domains.size()) return static_cast<uint8_t>(term);
    Step step = terms_[term].step;
    if (term >= num_leaves_) {
      const Maker& maker = *std::ranges::find(kMakers, step.op, &Maker::op);
      for (size_t i = 0; i < maker.arity(); ++i) step.operands[i] = write(into, operands_[term - num_leaves_][i]);
    }
    into.steps.push_back(step);
    return static_cast<uint8_t>(into.steps.size() - 1);
  }
  bool prove(Expression candidate) {
    Verdict verdict = compare(wanted_, pieces_.hyperplanes, candidate);
    if (verdict.counterexample) points_.push_back(*std::move(verdict.counterexample));
    if (verdict.are_equal) found_ = std::move(candidate);
    return verdict.are_equal;
  }

  const Expression& wanted_;
  const int operators_;
  Pieces pieces_;
  std::vector<Leaves> points_;
  std::vector<double> target_, values_, row_;
  std::vector<Term> terms_;
  std::vector<std::array<uint32_t, 3>> operands_;  // of the terms that are no leaves
  boost::unordered_flat_set<uint64_t> seen_;
  size_t num_points_ = 0, num_leaves_ = 0;
  std::optional<Expression> found_;
};

std::string key_of(const Expression& expression) {
  std::string key;
  auto put = [&](double number) { key.append(reinterpret_cast<const char*>(&number), sizeof number); };
  for (const Step& step : expression.steps) {
    key.push_back(static_cast<char>(step.op));
    key.push_back(static_cast<char>(step.is_condition));
    for (uint8_t operand : step.operands) key.push_back(static_cast<char>(operand));
    if (step.op == Op::Constant) put(step.number);
  }
  for (const Expression::Domain& domain : expression.domains) {
    put(domain.low), put(domain.high);
    key.push_back(static_cast<char>(domain.may_be_nan + 2 * domain.may_be_infinite + 4 * domain.excludes_low));
  }
  return key;
}

}  // namespace

bool SmallestExpressions::takes(double c) {
  constexpr double kLeast = 0x1p-10, kMost = 0x1p10;
  return c == 0 || (std::abs(c) >= kLeast && std::abs(c) <= kMost);
}

const PiecewiseExpression* SmallestExpressions::smaller(const PiecewiseExpression& expression, int operators) {
  auto [at, is_new] = known_.try_emplace(key_of(expression) + static_cast<char>(operators));
  if (is_new) at->second = Search(expression, operators).run();
  return at->second ? &*at->second : nullptr;
}

}  // namespace anfora::analysis
