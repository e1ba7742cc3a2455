#include "analysis/range.h"

#include <algorithm>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/module.h"
#include "support/element_types.h"
#include "support/integers.h"

namespace anfora::analysis {

using namespace ir;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Elements of a constant that are read to find its bounds.
constexpr int64_t kMostReadElements = 1 << 16;

ValueRange make(double low, double high, bool may_be_nan) { return {low, high, may_be_nan}; }

// Everything that the element type can hold.
ValueRange whole(const Type* type) {
  if (!type || !type->is_tensor()) return {};
  DType dtype = type->dtype();
  if (dtype == DType::Bool) return make(0, 1, false);
  if (!is_integer(dtype)) return {};
  int bits = element_bits(dtype);
  if (is_signed_integer(dtype)) return make(-std::ldexp(1.0, bits - 1), std::ldexp(1.0, bits - 1) - 1, false);
  return make(0, std::ldexp(1.0, bits) - 1, false);
}

double largest_finite(DType dtype) {
  switch (dtype) {
    case DType::F16: return 65504;
    case DType::BF16: return 0x1.fep127;
    case DType::F32: return std::numeric_limits<float>::max();
    case DType::F64: return std::numeric_limits<double>::max();
    default: return 0;
  }
}

constexpr double kMostExact = 0x1p53;  // integers up to there are doubles

ValueRange of_constant(const Tensor& t) {
  if (t.size() == 0 || t.size() > kMostReadElements) return {};
  bool number = is_integer(t.dtype()) || largest_finite(t.dtype()) != 0;
  if (t.dtype() == DType::Bool) {
    auto values = t.data<bool>();
    return make(std::ranges::all_of(values, std::identity()), std::ranges::any_of(values, std::identity()), false);
  }
  if (!number || element_bits(t.dtype()) < 8) return {};
  return dispatch<Numbers>(t.dtype(), [&]<class T>() {
    ValueRange r = make(kInfinity, -kInfinity, false);
    for (T element : t.data<T>()) {
      double x = static_cast<double>(static_cast<ComputeType<T>>(element));
      r.may_be_nan = r.may_be_nan || std::isnan(x);
      if (x < r.low) r.low = x;
      if (x > r.high) r.high = x;
    }
    if constexpr (std::is_integral_v<T> && sizeof(T) == 8) {  // more digits than a double has: bounds outside of them
      if (std::abs(r.low) >= kMostExact) r.low = std::nextafter(r.low, -kInfinity);
      if (std::abs(r.high) >= kMostExact) r.high = std::nextafter(r.high, kInfinity);
    }
    return r.low <= r.high ? r : ValueRange{};
  });
}

ValueRange unite(ValueRange a, ValueRange b) {
  return make(std::min(a.low, b.low), std::max(a.high, b.high), a.may_be_nan || b.may_be_nan);
}

// 0 · ∞ is a NaN as a product of elements, but 0 as a product of bounds.
double bound_product(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

bool is_unbounded(ValueRange r) { return r.low == -kInfinity || r.high == kInfinity; }
bool contains_zero(ValueRange r) { return r.low <= 0 && r.high >= 0; }

ValueRange sum(ValueRange a, ValueRange b) {
  bool infinities_cancel = (a.high == kInfinity && b.low == -kInfinity) || (a.low == -kInfinity && b.high == kInfinity);
  return make(a.low + b.low, a.high + b.high, a.may_be_nan || b.may_be_nan || infinities_cancel);
}
ValueRange negated(ValueRange a) { return make(-a.high, -a.low, a.may_be_nan); }
ValueRange product(ValueRange a, ValueRange b) {
  double corners[] = {bound_product(a.low, b.low), bound_product(a.low, b.high), bound_product(a.high, b.low),
                      bound_product(a.high, b.high)};
  bool zero_times_infinity = (contains_zero(a) && is_unbounded(b)) || (contains_zero(b) && is_unbounded(a));
  return make(*std::ranges::min_element(corners), *std::ranges::max_element(corners),
              a.may_be_nan || b.may_be_nan || zero_times_infinity);
}
// What rounds many times may miss its bounds, but for zero.
ValueRange blurred(ValueRange a) {
  constexpr double kRounding = 0.01;
  return make(a.low - std::abs(a.low) * kRounding, a.high + std::abs(a.high) * kRounding, a.may_be_nan);
}
ValueRange magnitude(ValueRange a) {
  double most = std::max(std::abs(a.low), std::abs(a.high));
  return make(contains_zero(a) ? 0 : std::min(std::abs(a.low), std::abs(a.high)), most, a.may_be_nan);
}
ValueRange square(ValueRange a) {
  ValueRange m = magnitude(a);
  return make(m.low * m.low, m.high * m.high, a.may_be_nan);
}
ValueRange quotient(ValueRange a, ValueRange b) {
  if (a.low == 0 && a.high == 0) return make(0, 0, a.may_be_nan || b.may_be_nan || contains_zero(b));
  if (contains_zero(b) || is_unbounded(b)) {
    bool both_positive = a.low >= 0 && b.low >= 0;
    bool harmless = !a.may_be_nan && !b.may_be_nan && !contains_zero(b) && !is_unbounded(a);
    return make(both_positive ? 0 : -kInfinity, kInfinity, !harmless);
  }
  return product(a, make(1 / b.high, 1 / b.low, b.may_be_nan));
}

// b^e for b ≥ 0 rises or falls in each of the two, so that its bounds are at the corners.
ValueRange power(ValueRange b, ValueRange e) {
  if (b.low == 1 && b.high == 1 && !b.may_be_nan) return b;
  if (e.low == 0 && e.high == 0 && !e.may_be_nan) return make(1, 1, false);
  if (b.low < 0) return b.low >= -1 && b.high <= -1 ? make(-1, 1, true) : ValueRange{};
  const double corners[] = {std::pow(b.low, e.low), std::pow(b.low, e.high), std::pow(b.high, e.low),
                            std::pow(b.high, e.high)};
  return make(*std::ranges::min_element(corners), *std::ranges::max_element(corners), b.may_be_nan || e.may_be_nan);
}

bool is_point(ValueRange a) { return a.low == a.high && !a.may_be_nan; }
ValueRange intersection(ValueRange a, ValueRange b) {
  return make(std::max(a.low, b.low), std::min(a.high, b.high), a.may_be_nan && b.may_be_nan);
}

// Conditions: 1 where it holds for all elements, 0 where it holds for none.
ValueRange condition(bool always, bool never) { return make(always ? 1 : 0, never ? 0 : 1, false); }
// In f64 integers beyond 2^53 are not told from their neighbours, but the ends of their type bound them all.
bool is_told_exactly(ValueRange r, const Type* type) {
  if (!type->is_tensor() || element_bits(type->dtype()) < 64 || is_float(type->dtype())) return true;
  ValueRange all = whole(type);
  return (r.low >= -0x1p53 || r.low == all.low) && r.low <= 0x1p53 && (r.high <= 0x1p53 || r.high == all.high) &&
         r.high >= -0x1p53;
}
ValueRange is_less(ValueRange a, ValueRange b, bool or_equal) {
  bool no_nan = !a.may_be_nan && !b.may_be_nan;
  return condition(no_nan && (or_equal ? a.high <= b.low : a.high < b.low),
                   or_equal ? a.low > b.high : a.low >= b.high);
}
ValueRange is_equal(ValueRange a, ValueRange b) {
  bool same = a.low == a.high && b.low == b.high && a.low == b.low && !a.may_be_nan && !b.may_be_nan;
  return condition(same, a.high < b.low || a.low > b.high);
}

ValueRange clamped(ValueRange a, double low, double high) {
  return make(std::clamp(a.low, low, high), std::clamp(a.high, low, high), a.may_be_nan);
}

// Of a function that rises everywhere.
template <class F>
ValueRange rising(ValueRange a, F f) {
  return make(f(a.low), f(a.high), a.may_be_nan);
}

// What gives numbers of numbers, and is not looked at further: beside products and convolutions, which are told by their kind.
constexpr std::string_view kTotal[] = {"AveragePool",
                                       "BatchNormalization",
                                       "Celu",
                                       "CumSum",
                                       "Dropout",
                                       "Einsum",
                                       "Elu",
                                       "GRU",
                                       "Gelu",
                                       "GlobalAveragePool",
                                       "GroupNormalization",
                                       "HardSwish",
                                       "InstanceNormalization",
                                       "LRN",
                                       "LSTM",
                                       "LayerNormalization",
                                       "LeakyRelu",
                                       "LogSoftmax",
                                       "MaxPool",
                                       "Mish",
                                       "PRelu",
                                       "Pad",
                                       "RMSNormalization",
                                       "RNN",
                                       "ReduceL1",
                                       "ReduceL2",
                                       "ReduceLogSumExp",
                                       "ReduceMean",
                                       "ReduceProd",
                                       "ReduceSum",
                                       "ReduceSumSquare",
                                       "Resize",
                                       "Selu",
                                       "Softsign",
                                       "Split",
                                       "Sum",
                                       "Swish",
                                       "TopK"};

bool is_total(const Operator& op) {
  return op.fusion == FusionKind::Anchor || std::ranges::binary_search(kTotal, op.name);
}

bool is_floating(const Type* type) { return type && type->is_tensor() && largest_finite(type->dtype()) != 0; }

// All numbers of a floating type.
ValueRange numbers_of(const Type* type) {
  const double most = largest_finite(type->dtype());
  return make(-most, most, false);
}

}  // namespace

// A computed range as the type holds it: integers wrap around, floats overflow and round.
ValueRange RangeAnalysis::fitted(ValueRange r, const Type* type) const {
  ValueRange all = whole(type);
  if (!type || !type->is_tensor()) return all;
  if (!is_float(type->dtype())) {
    // Of 64-bit integers, not all near the ends are doubles: a bound that is an end may be rounded to it.
    bool exact = element_bits(type->dtype()) < 64;
    bool fits = exact ? r.low >= all.low && r.high <= all.high
                      : (r.low > all.low || (r.low == 0 && all.low == 0)) && r.high < all.high;
    return fits ? make(r.low, r.high, false) : all;
  }
  double most = largest_finite(type->dtype());
  if (most == 0) return all;
  // A bound may be missed by a rounding, but for small whole numbers: what is not below one is not rounded to less.
  constexpr double kMostWhole = 256;
  auto widened = [&](double bound, double direction) {
    const bool is_exact = std::abs(bound) <= kMostWhole && std::trunc(bound) == bound;
    if (is_exact || (assumes_ordinary_ && std::isinf(bound))) return bound;
    double wide = bound + direction * std::abs(bound) * 0.01;
    return std::abs(wide) > most ? std::copysign(assumes_ordinary_ ? most : kInfinity, bound) : wide;
  };
  double low = widened(r.low, -1), high = widened(r.high, 1);
  return make(std::isnan(low) ? -kInfinity : low, std::isnan(high) ? kInfinity : high, r.may_be_nan);
}

void RangeAnalysis::visit_operands(const Node* node) {
  std::vector<std::pair<const Apply*, size_t>> stack;
  boost::unordered_flat_set<const Node*> seen;
  auto push = [&](const Node* next) {
    const Apply* apply = next ? next->as_apply() : nullptr;
    const bool computes =
        apply && (apply->primitive() == Primitive::Operation || apply->primitive() == Primitive::TupleGetItem);
    if (computes && !known_.contains(apply) && seen.insert(apply).second) stack.emplace_back(apply, 0);
  };
  push(node);
  while (!stack.empty()) {
    auto& [apply, next] = stack.back();
    if (next < apply->num_inputs()) {
      push(apply->input(next++));
      continue;
    }
    const Apply* done = apply;
    stack.pop_back();
    visit(done, 1);
  }
}

bool RangeAnalysis::are_finite(const Apply& node, int depth) {
  return std::ranges::all_of(node.operands(), [&](const Use& use) {
    return !is_floating(use.node->type()) || visit(use.node, depth).is_finite();
  });
}

ValueRange RangeAnalysis::visit(const Node* node, int depth) {
  if (!node || !node->type()) return {};
  if (auto known = known_.find(node); known != known_.end()) return known->second;
  ValueRange result = whole(node->type());
  if (const Tensor* constant = constant_tensor(node)) {
    result = of_constant(*constant);
  } else if (assumes_ordinary_ && node->is_parameter() && is_floating(node->type()) &&
             node->graph() == node->graph()->module().main()) {
    result = numbers_of(node->type());
  } else if (const Apply* apply = node->as_apply()) {
    if (depth == 0) return result;  // not remembered: from below it may be known
    result = of_application(*apply, depth - 1);
  }
  known_[node] = result;
  return result;
}

// Whether there is an element at least along each of the axes [from, …).
static bool has_elements(const Type& x, int from) {
  for (int axis = from; axis < x.rank(); ++axis) {
    if (x.dim(axis).as_constant().value_or(0) < 1) return false;
  }
  return true;
}

// Whether each window of a pool does: without padding all do, with it those that are larger where the input is not empty.
static bool windows_meet_input(const Apply& pool, const Type& x) {
  const AttributeSet& attributes = pool.attributes();
  const std::vector<int64_t> pads = attributes.get_ints("pads"), kernel = attributes.get_ints("kernel_shape"),
                             dilations = attributes.get_ints("dilations");
  const bool is_padded = std::ranges::any_of(pads, [](int64_t pad) { return pad != 0; }) ||
                         attributes.get_string("auto_pad", "NOTSET").starts_with("SAME");
  if (!is_padded) return true;
  if (std::ranges::any_of(dilations, [](int64_t dilation) { return dilation > 1; })) return false;
  return has_elements(x, 2) && (pads.empty() || (!kernel.empty() && std::ranges::max(pads) < std::ranges::min(kernel)));
}

// Whether each result of a reduction or a pool is known to come of an element at least.
static bool sees_elements(const Apply& node) {
  const Type* x = node.input(0)->type();
  if (!x || !x->is_tensor() || !x->has_rank()) return false;
  if (node.is("MaxPool")) return windows_meet_input(node, *x);
  if (node.op().name.starts_with("Global")) return has_elements(*x, 2);
  const auto axes = node.has_input(1) ? integers_of(constant_tensor(node.input(1))) : std::nullopt;
  if (!axes || axes->empty()) return has_elements(*x, 0);  // all axes, or which ones is not known
  return std::ranges::all_of(*axes, [&](int64_t axis) {
    const int64_t from_front = axis < 0 ? axis + x->rank() : axis;
    return from_front >= 0 && from_front < x->rank() &&
           x->dim(static_cast<int>(from_front)).as_constant().value_or(0) > 0;
  });
}

// How many elements each result of a sum along axes, or of a product of matrices, comes of; 0: not known.
static double num_terms(const Apply& node) {
  auto size_of = [](const Type* type) -> double {
    auto shape = type && type->is_tensor() ? type->static_shape() : std::nullopt;
    return shape ? std::accumulate(shape->begin(), shape->end(), 1.0, std::multiplies<>()) : 0;
  };
  const Type* x = node.input(0)->type();
  if (node.is("MatMul")) return x->has_rank() && x->rank() > 0 ? static_cast<double>(x->dim(x->rank() - 1).as_constant().value_or(0)) : 0;
  const double results = size_of(node.type());
  return results > 0 ? size_of(x) / results : 0;
}

// A sum of so many elements.
ValueRange RangeAnalysis::of_sum(const Apply& node, int depth) {
  if (!is_floating(node.type()) || (!node.is("ReduceSum") && !node.is("MatMul"))) return {};
  const double terms = num_terms(node);
  ValueRange each = visit(node.input(0), depth);
  if (node.is("MatMul")) each = product(each, visit(node.input(1), depth));
  if (terms == 0) return {};
  ValueRange all = fitted(blurred(product(each, make(terms, terms, false))), node.type());
  all.may_be_nan = all.may_be_nan || (all.low == -kInfinity && all.high == kInfinity);
  return all;
}

ValueRange RangeAnalysis::of_application(const Apply& node, int depth) {
  const Type* type = node.type();
  ValueRange anything = whole(type);
  if (assumes_ordinary_ && node.primitive() == Primitive::TupleGetItem && is_floating(type)) {
    const Apply* several = node.input(0)->as_apply();
    const bool are_numbers = several && several->primitive() == Primitive::Operation && several->op().domain.empty() &&
                             is_total(several->op()) && are_finite(*several, depth);
    return are_numbers ? numbers_of(type) : anything;
  }
  if (node.primitive() != Primitive::Operation || node.num_outputs() != 1 || !type->is_tensor() ||
      !node.op().domain.empty()) {
    return anything;
  }
  auto in = [&](size_t i) { return visit(node.input(i), depth); };
  auto within = [&](double low, double high) { return make(low, high, in(0).may_be_nan); };
  std::string_view op = node.op().name;

  if (node.op().fusion == FusionKind::View || op == "Transpose" || op == "Slice" || op == "Gather" || op == "Expand" ||
      op == "Tile" || op == "Identity" || op == "GatherElements" || op == "GatherND" || op == "DepthToSpace" ||
      op == "SpaceToDepth") {
    return in(0);
  }
  if (op == "Concat") {
    ValueRange all = in(0);
    for (size_t i = 1; i < node.num_inputs(); ++i) all = unite(all, in(i));
    return all;
  }
  if (op == "Where") {
    ValueRange which = in(0);
    if (which.low == 1) return in(1);
    return which.high == 0 ? in(2) : unite(in(1), in(2));
  }
  if (type->dtype() == DType::Bool && node.num_inputs() == 2 && node.input(0)->type() && node.input(1)->type()) {
    ValueRange a = in(0), b = in(1);
    if (!is_told_exactly(a, node.input(0)->type()) || !is_told_exactly(b, node.input(1)->type())) return anything;
    if (op == "Less" || op == "LessOrEqual") return is_less(a, b, op != "Less");
    if (op == "Greater" || op == "GreaterOrEqual") return is_less(b, a, op != "Greater");
    if (op == "Equal") return node.input(0)->type()->dtype() == DType::String ? anything : is_equal(a, b);
    if (op == "And") return make(std::min(a.low, b.low), std::min(a.high, b.high), false);
    if (op == "Or") return make(std::max(a.low, b.low), std::max(a.high, b.high), false);
  }
  if (op == "Not") return make(1 - in(0).high, 1 - in(0).low, false);
  if (op == "IsNaN") return condition(false, !in(0).may_be_nan);
  if (op == "IsInf") return condition(false, in(0).is_finite());
  if (op == "Shape" || op == "Size" || op == "NonZero" || op == "ArgMax" || op == "ArgMin") {
    return make(0, anything.high, false);
  }
  if (op == "Range" && is_integer(type->dtype())) {
    ValueRange start = in(0), limit = in(1), step = in(2);
    if (step.low > 0) return make(start.low, std::max(start.high, limit.high), false);
    if (step.high < 0) return make(std::min(start.low, limit.low), start.high, false);
    return anything;
  }
  if (op == "Cast") {
    ValueRange from = in(0);
    if (type->dtype() == DType::Bool) return condition(from.low > 0 || from.high < 0, from.low == 0 && from.high == 0 && !from.may_be_nan);
    if (is_integer(type->dtype())) {
      if (!from.is_finite() || from.low <= anything.low || from.high >= anything.high) return anything;
      return make(std::trunc(from.low), std::trunc(from.high), false);
    }
    return fitted(from, type);
  }
  if (op == "Relu") {
    ValueRange x = in(0);
    return make(std::max(x.low, 0.0), std::max(x.high, 0.0), x.may_be_nan);
  }
  if (op == "Sigmoid") {
    return clamped(fitted(rising(in(0), [](double x) { return 1 / (1 + std::exp(-x)); }), type), 0, 1);
  }
  if (op == "Tanh") return clamped(fitted(rising(in(0), [](double x) { return std::tanh(x); }), type), -1, 1);
  if (op == "Sign") return rising(in(0), [](double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0; });
  if (op == "HardSigmoid") return within(0, 1);
  if (op == "Softmax") return make(0, 1, in(0).may_be_nan || is_unbounded(in(0)));
  if (op == "Erf" || op == "Softsign") return within(-1, 1);
  if (op == "Sin" || op == "Cos") return make(-1, 1, in(0).may_be_nan || is_unbounded(in(0)));
  if (op == "Abs") return fitted(magnitude(in(0)), type);
  if (op == "Neg") return fitted(negated(in(0)), type);
  if (op == "Exp") return fitted(rising(in(0), [](double x) { return std::exp(x); }), type);
  if (op == "Softplus") return make(0, kInfinity, in(0).may_be_nan);
  if (op == "Sqrt") {
    ValueRange x = in(0);
    return make(x.low > 0 ? std::sqrt(x.low) * 0.99 : 0,
                fitted(rising(x, [](double v) { return v > 0 ? std::sqrt(v) : 0; }), type).high,
                x.may_be_nan || x.low < 0);
  }
  if (op == "Floor") return rising(in(0), [](double x) { return std::floor(x); });
  if (op == "Ceil") return rising(in(0), [](double x) { return std::ceil(x); });
  if (op == "Round") return rising(in(0), [](double x) { return std::nearbyint(x); });
  if (op == "Clip") {
    ValueRange x = in(0);
    if (node.has_input(1)) {
      ValueRange least = visit(node.input(1), depth);
      bool nan = x.may_be_nan || least.may_be_nan;
      x = make(std::max(x.low, least.low), std::max(x.high, least.high), nan);
    }
    if (node.has_input(2)) {  // the last word, also where it is below the least
      ValueRange most = visit(node.input(2), depth);
      bool nan = x.may_be_nan || most.may_be_nan;
      x = make(std::min(x.low, most.low), std::min(x.high, most.high), nan);
    }
    return x;
  }
  if (op == "Add") return fitted(sum(in(0), in(1)), type);
  if (op == "Sub" && node.input(0) != node.input(1)) return fitted(sum(in(0), negated(in(1))), type);
  if (op == "Mul") return fitted(node.input(0) == node.input(1) ? square(in(0)) : product(in(0), in(1)), type);
  if (op == "Sub" && node.input(0) == node.input(1) && is_float(type->dtype())) return make(0, 0, !in(0).is_finite());
  if (op == "Div" && node.input(0) == node.input(1) && is_float(type->dtype()))
    return make(1, 1, !in(0).is_finite() || contains_zero(in(0)));
  if (op == "Div" && is_float(type->dtype())) return fitted(quotient(in(0), in(1)), type);
  if (op == "Reciprocal") return fitted(quotient(make(1, 1, false), in(0)), type);
  if (op == "Min" || op == "Max") {
    ValueRange all = in(0);
    for (size_t i = 1; i < node.num_inputs(); ++i) {
      ValueRange next = in(i);
      bool nan = all.may_be_nan || next.may_be_nan;
      all = op == "Min" ? make(std::min(all.low, next.low), std::min(all.high, next.high), nan)
                        : make(std::max(all.low, next.low), std::max(all.high, next.high), nan);
    }
    return all;
  }
  if (op == "Pow") {
    ValueRange exponent = in(1), base = in(0), corners = fitted(power(base, exponent), type);
    const bool is_constant = exponent.low == exponent.high;
    bool even = is_constant && std::fmod(exponent.low, 2) == 0;
    if (exponent.low == 2 && exponent.high == 2) return fitted(square(base), type);
    if (is_float(type->dtype()) && is_point(power(base, exponent))) return power(base, exponent);
    const bool whole_number = std::trunc(exponent.low) == exponent.low;
    if (assumes_ordinary_ && is_floating(type) && is_constant && base.is_finite() && exponent.low > 0 &&
        (whole_number || base.low >= 0)) {
      return intersection(corners, even ? make(0, largest_finite(type->dtype()), false) : numbers_of(type));
    }
    if (is_float(type->dtype()))
      return even ? intersection(corners, make(0, kInfinity, anything.may_be_nan)) : corners;
  }
  const bool is_largest = op == "ReduceMax" || op == "MaxPool" || op == "GlobalMaxPool";
  if (is_largest || op == "ReduceMin") {
    if (anything.low >= 0) return anything;
    ValueRange x = in(0);
    if (sees_elements(node) || assumes_ordinary_) return x;
    // The largest of nothing, or of padding alone, is below all numbers, the smallest above.
    return is_largest ? make(anything.low, x.high, x.may_be_nan) : make(x.low, anything.high, x.may_be_nan);
  }
  if (op == "ReduceMean" || op == "GlobalAveragePool") {
    if (!is_float(type->dtype()) || !in(0).is_finite()) return anything;
    ValueRange mean = fitted(blurred(in(0)), type);
    mean.may_be_nan = !sees_elements(node) && !assumes_ordinary_;  // 0 / 0
    return mean;
  }
  if (const ValueRange sum = of_sum(node, depth); sum != ValueRange{}) return sum;
  if (assumes_ordinary_ && is_floating(type)) {
    if (op == "Log" && in(0).low > 0 && in(0).is_finite()) return numbers_of(type);
    const bool is_sum =
        op == "ReduceSumSquare" || op == "ReduceL1" || op == "ReduceL2" || (op == "ReduceSum" && in(0).low >= 0);
    if (is_total(node.op()) && are_finite(node, depth))
      return is_sum ? make(0, largest_finite(type->dtype()), false) : numbers_of(type);
  }
  bool sums_squares = op == "ReduceSumSquare" || op == "ReduceL1" || op == "ReduceL2";
  if (sums_squares && is_float(type->dtype())) return make(0, kInfinity, true);
  if (op == "ReduceSum" && is_float(type->dtype()) && in(0).low >= 0) return make(0, kInfinity, in(0).may_be_nan);
  return anything;
}

}  // namespace anfora::analysis
