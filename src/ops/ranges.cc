#include "ops/ranges.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "ir/queries.h"
#include "support/element_types.h"
#include "support/integers.h"

namespace anfora::ops {

using ir::Apply;
using ir::Type;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

ValueRange make(double low, double high, bool may_be_nan) { return {low, high, may_be_nan}; }
// The same of real numbers above 0, if `is_positive`.
ValueRange positive(ValueRange r, bool is_positive) { return {r.low, r.high, r.may_be_nan, is_positive && r.low == 0}; }

double largest_finite(DType dtype) {
  switch (dtype) {
    case DType::F16: return 65504;
    case DType::BF16: return 0x1.fep127;
    case DType::F32: return std::numeric_limits<float>::max();
    case DType::F64: return std::numeric_limits<double>::max();
    default: return 0;
  }
}

// 0 · ∞ is a NaN as a product of elements, but 0 as a product of bounds.
double bound_product(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

bool is_unbounded(ValueRange r) { return r.low == -kInfinity || r.high == kInfinity; }
bool contains_zero(ValueRange r) { return r.low <= 0 && r.high >= 0; }
bool is_point(ValueRange a) { return a.low == a.high && !a.may_be_nan; }

ValueRange united(ValueRange a, ValueRange b) {
  return positive(make(std::min(a.low, b.low), std::max(a.high, b.high), a.may_be_nan || b.may_be_nan), a.is_positive() && b.is_positive());
}
ValueRange intersection(ValueRange a, ValueRange b) {
  return make(std::max(a.low, b.low), std::min(a.high, b.high), a.may_be_nan && b.may_be_nan);
}
ValueRange least(ValueRange a, ValueRange b) {
  return positive(make(std::min(a.low, b.low), std::min(a.high, b.high), a.may_be_nan || b.may_be_nan), a.is_positive() && b.is_positive());
}
ValueRange largest(ValueRange a, ValueRange b) {
  return positive(make(std::max(a.low, b.low), std::max(a.high, b.high), a.may_be_nan || b.may_be_nan), a.is_positive() || b.is_positive());
}

ValueRange sum_of(ValueRange a, ValueRange b) {
  bool infinities_cancel = (a.high == kInfinity && b.low == -kInfinity) || (a.low == -kInfinity && b.high == kInfinity);
  return make(a.low + b.low, a.high + b.high, a.may_be_nan || b.may_be_nan || infinities_cancel);
}
ValueRange negated(ValueRange a) { return make(-a.high, -a.low, a.may_be_nan); }
ValueRange multiplied(ValueRange a, ValueRange b) {
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
// A NaN comes of 0 / 0 and ∞ / ∞.
ValueRange divided(ValueRange a, ValueRange b) {
  const bool may_be_nan = a.may_be_nan || b.may_be_nan || (contains_zero(a) && contains_zero(b)) || (is_unbounded(a) && is_unbounded(b));
  if (a.low == 0 && a.high == 0) return make(0, 0, may_be_nan);
  if (!contains_zero(b)) {
    const ValueRange quotient = multiplied(a, make(1 / b.high, 1 / b.low, false));
    return make(quotient.low, quotient.high, may_be_nan);
  }
  if (b.low == 0 && b.high == 0) return make(-kInfinity, kInfinity, may_be_nan);
  const bool is_positive = (a.low >= 0 && b.low >= 0) || (a.high <= 0 && b.high <= 0);
  const bool is_negative = (a.low >= 0 && b.high <= 0) || (a.high <= 0 && b.low >= 0);
  return make(is_positive ? 0 : -kInfinity, is_negative ? 0 : kInfinity, may_be_nan);
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

ValueRange clamped(ValueRange a, double low, double high) {
  return make(std::clamp(a.low, low, high), std::clamp(a.high, low, high), a.may_be_nan);
}

// Of a function that rises everywhere.
template <class F>
ValueRange rising(ValueRange a, F f) {
  return make(f(a.low), f(a.high), a.may_be_nan);
}

// 1 where it holds for all elements, 0 where it holds for none.
ValueRange condition(bool always, bool never) { return make(always ? 1 : 0, never ? 0 : 1, false); }

// In f64 integers beyond 2^53 are not told from their neighbours, but the ends of their type bound them all.
bool is_told_exactly(ValueRange r, const Type* type) {
  if (!type || !type->is_tensor()) return false;
  if (element_bits(type->dtype()) < 64 || is_float(type->dtype())) return true;
  ValueRange all = range_of_type(type);
  return (r.low >= -0x1p53 || r.low == all.low) && r.low <= 0x1p53 && (r.high <= 0x1p53 || r.high == all.high) &&
         r.high >= -0x1p53;
}
ValueRange below(ValueRange a, ValueRange b, bool or_equal) {
  bool no_nan = !a.may_be_nan && !b.may_be_nan;
  return condition(no_nan && (or_equal ? a.high <= b.low : a.high < b.low),
                   or_equal ? a.low > b.high : a.low >= b.high);
}
template <class Compare>
ValueRange compared(RangeContext& ctx, Compare compare) {
  ValueRange a = ctx.input(0), b = ctx.input(1);
  const Apply& node = ctx.node();
  if (!is_told_exactly(a, node.input(0)->type()) || !is_told_exactly(b, node.input(1)->type())) return ctx.anything();
  return compare(a, b);
}

// Whether there is an element at least along each of the axes [from, …).
bool has_elements(const Type& x, int from) {
  for (int axis = from; axis < x.rank(); ++axis) {
    if (x.dim(axis).as_constant().value_or(0) < 1) return false;
  }
  return true;
}

// Whether each window of a pool does: without padding all do, with it those that are larger where the input is not empty.
bool windows_meet_input(const Apply& pool, const Type& x) {
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
bool sees_elements(const Apply& node) {
  const Type* x = ir::ranked_type(node.input(0));
  if (!x) return false;
  if (node.op().find_attribute("kernel_shape")) return windows_meet_input(node, *x);
  if (!node.op().find_attribute("keepdims")) return has_elements(*x, 2);  // a global pool
  const auto axes = ir::constant_integers(node, 1);
  if (!axes || axes->empty()) return has_elements(*x, 0);  // all axes, or which ones is not known
  return std::ranges::all_of(*axes, [&](int64_t axis) { return ir::extent_of(node.input(0), static_cast<int>(axis)) > 0; });
}

// A sum of so many terms; 0: not known how many.
ValueRange repeated_sum(RangeContext& ctx, ValueRange each, double terms) {
  if (terms == 0 || !holds_floats(ctx.type())) return {};
  ValueRange all = ctx.fitted(blurred(multiplied(each, make(terms, terms, false))));
  all.may_be_nan = all.may_be_nan || (all.low == -kInfinity && all.high == kInfinity);
  return all;
}

double static_count(const Type* type) {
  auto shape = type && type->is_tensor() ? type->static_shape() : std::nullopt;
  return shape ? std::accumulate(shape->begin(), shape->end(), 1.0, std::multiplies<>()) : 0;
}

}  // namespace

ValueRange range_of_type(const Type* type) {
  if (!type || !type->is_tensor()) return {};
  DType dtype = type->dtype();
  if (dtype == DType::Bool) return make(0, 1, false);
  if (!is_integer(dtype)) return {};
  int bits = element_bits(dtype);
  if (is_signed_integer(dtype)) return make(-std::ldexp(1.0, bits - 1), std::ldexp(1.0, bits - 1) - 1, false);
  return make(0, std::ldexp(1.0, bits) - 1, false);
}

bool holds_floats(const Type* type) { return type && type->is_tensor() && largest_finite(type->dtype()) != 0; }

ValueRange finite_range(const Type* type) {
  const double most = largest_finite(type->dtype());
  return make(-most, most, false);
}

ValueRange RangeContext::fitted(ValueRange r) const {
  ValueRange all = anything();
  if (!type() || !type()->is_tensor()) return all;
  if (!is_float(type()->dtype())) {
    // Of 64-bit integers, not all near the ends are doubles: a bound that is an end may be rounded to it.
    bool exact = element_bits(type()->dtype()) < 64;
    bool fits = exact ? r.low >= all.low && r.high <= all.high
                      : (r.low > all.low || (r.low == 0 && all.low == 0)) && r.high < all.high;
    return fits ? make(r.low, r.high, false) : all;
  }
  double most = largest_finite(type()->dtype());
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

ValueRange RangeContext::otherwise(const Type* output) {
  if (!assumes_ordinary_ || !holds_floats(output) || !node_.op().total) return range_of_type(output);
  for (size_t i = 0; i < node_.num_inputs(); ++i) {
    if (holds_floats(node_.input(i)->type()) && !input(i).is_finite()) return range_of_type(output);
  }
  return finite_range(output);
}

ValueRange range_of_sum(RangeContext& ctx) {
  const ValueRange a = ctx.input(0), b = ctx.input(1);
  const bool is_positive = is_float(ctx.type()->dtype()) && ((a.is_positive() && b.low >= 0) || (b.is_positive() && a.low >= 0));
  return positive(ctx.fitted(sum_of(a, b)), is_positive);
}
ValueRange range_of_difference(RangeContext& ctx) {
  const bool is_zero = ctx.node().input(0) == ctx.node().input(1);
  if (!is_zero) return ctx.fitted(sum_of(ctx.input(0), negated(ctx.input(1))));
  return is_float(ctx.type()->dtype()) ? make(0, 0, !ctx.input(0).is_finite()) : ctx.anything();
}
ValueRange range_of_product(RangeContext& ctx) {
  const ValueRange a = ctx.input(0), b = ctx.input(1);
  const bool is_square = ctx.node().input(0) == ctx.node().input(1);
  return positive(ctx.fitted(is_square ? square(a) : multiplied(a, b)), is_float(ctx.type()->dtype()) && a.is_positive() && b.is_positive());
}
ValueRange range_of_quotient(RangeContext& ctx) {
  if (!is_float(ctx.type()->dtype())) return ctx.anything();
  const bool is_one = ctx.node().input(0) == ctx.node().input(1);
  if (is_one) return make(1, 1, !ctx.input(0).is_finite() || contains_zero(ctx.input(0)));
  const ValueRange a = ctx.input(0), b = ctx.input(1);
  return positive(ctx.fitted(divided(a, b)), a.is_positive() && b.is_positive() && b.high < kInfinity);
}
ValueRange range_of_reciprocal(RangeContext& ctx) {
  const ValueRange x = ctx.input(0);
  return positive(ctx.fitted(divided(make(1, 1, false), x)), x.is_positive() && x.high < kInfinity);
}
ValueRange range_of_power(RangeContext& ctx) {
  ValueRange exponent = ctx.input(1), base = ctx.input(0);
  const bool is_positive = base.is_positive() && base.high < kInfinity && !is_unbounded(exponent);
  const ValueRange corners = positive(ctx.fitted(power(base, exponent)), is_positive);
  const Type* type = ctx.type();
  const bool is_constant = exponent.low == exponent.high, even = is_constant && std::fmod(exponent.low, 2) == 0;
  if (exponent.low == 2 && exponent.high == 2) return ctx.fitted(square(base));
  if (!is_float(type->dtype())) return ctx.anything();
  if (is_point(power(base, exponent))) return power(base, exponent);
  const bool is_whole = std::trunc(exponent.low) == exponent.low;
  if (ctx.assumes_ordinary() && holds_floats(type) && is_constant && base.is_finite() && exponent.low > 0 &&
      (is_whole || base.low >= 0)) {
    ValueRange numbers = finite_range(type);
    return intersection(corners, even ? make(0, numbers.high, false) : numbers);
  }
  return even ? intersection(corners, make(0, kInfinity, true)) : corners;
}
ValueRange range_of_negation(RangeContext& ctx) { return ctx.fitted(negated(ctx.input(0))); }
ValueRange range_of_magnitude(RangeContext& ctx) { return ctx.fitted(magnitude(ctx.input(0))); }

template <ValueRange (*Combine)(ValueRange, ValueRange)>
static ValueRange accumulated(RangeContext& ctx) {
  ValueRange all = ctx.input(0);
  for (size_t i = 1; i < ctx.node().num_inputs(); ++i) all = Combine(all, ctx.input(i));
  return all;
}
ValueRange range_of_minimum(RangeContext& ctx) { return accumulated<least>(ctx); }
ValueRange range_of_maximum(RangeContext& ctx) { return accumulated<largest>(ctx); }
ValueRange range_of_all_inputs(RangeContext& ctx) { return accumulated<united>(ctx); }
ValueRange range_of_clip(RangeContext& ctx) {
  ValueRange x = ctx.input(0);
  if (ctx.node().has_input(1)) x = largest(x, ctx.input(1));
  if (ctx.node().has_input(2)) x = least(x, ctx.input(2));  // the last word, also where it is below the least
  return x;
}

ValueRange range_of_exponential(RangeContext& ctx) {
  const ValueRange x = ctx.input(0);
  return positive(ctx.fitted(rising(x, [](double v) { return std::exp(v); })), x.low > -kInfinity);
}
ValueRange range_of_logarithm(RangeContext& ctx) {
  const ValueRange x = ctx.input(0);
  if (x.low < 0 || !holds_floats(ctx.type())) return ctx.anything();
  return ctx.fitted(rising(x, [](double v) { return std::log(v); }));
}
ValueRange range_of_square_root(RangeContext& ctx) {
  ValueRange x = ctx.input(0);
  const ValueRange root = ctx.fitted(rising(x, [](double v) { return v > 0 ? std::sqrt(v) : 0; }));
  return positive(make(std::max(root.low, 0.0), root.high, x.may_be_nan || x.low < 0), x.is_positive());
}
ValueRange range_of_relu(RangeContext& ctx) {
  return positive(rising(ctx.input(0), [](double x) { return std::max(x, 0.0); }), ctx.input(0).is_positive());
}
ValueRange range_of_sigmoid(RangeContext& ctx) {
  const ValueRange x = ctx.input(0);
  return positive(clamped(ctx.fitted(rising(x, [](double v) { return 1 / (1 + std::exp(-v)); })), 0, 1), x.low > -kInfinity);
}
ValueRange range_of_tanh(RangeContext& ctx) {
  return clamped(ctx.fitted(rising(ctx.input(0), [](double x) { return std::tanh(x); })), -1, 1);
}
ValueRange range_of_sign(RangeContext& ctx) {
  return rising(ctx.input(0), [](double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0; });
}
ValueRange range_of_floor(RangeContext& ctx) {
  return rising(ctx.input(0), [](double x) { return std::floor(x); });
}
ValueRange range_of_ceiling(RangeContext& ctx) {
  return rising(ctx.input(0), [](double x) { return std::ceil(x); });
}
ValueRange range_of_rounding(RangeContext& ctx) {
  return rising(ctx.input(0), [](double x) { return std::nearbyint(x); });
}
ValueRange range_of_wave(RangeContext& ctx) {
  return make(-1, 1, ctx.input(0).may_be_nan || is_unbounded(ctx.input(0)));
}
ValueRange range_of_softmax(RangeContext& ctx) {
  return make(0, 1, ctx.input(0).may_be_nan || is_unbounded(ctx.input(0)));
}
ValueRange range_from_zero_to_one(RangeContext& ctx) { return make(0, 1, ctx.input(0).may_be_nan); }
ValueRange range_from_minus_one_to_one(RangeContext& ctx) { return make(-1, 1, ctx.input(0).may_be_nan); }
ValueRange range_of_softplus(RangeContext& ctx) {
  return positive(make(0, kInfinity, ctx.input(0).may_be_nan), ctx.input(0).low > -kInfinity);
}

ValueRange range_of_less(RangeContext& ctx) {
  return compared(ctx, [](ValueRange a, ValueRange b) { return below(a, b, false); });
}
ValueRange range_of_less_or_equal(RangeContext& ctx) {
  return compared(ctx, [](ValueRange a, ValueRange b) { return below(a, b, true); });
}
ValueRange range_of_greater(RangeContext& ctx) {
  return compared(ctx, [](ValueRange a, ValueRange b) { return below(b, a, false); });
}
ValueRange range_of_greater_or_equal(RangeContext& ctx) {
  return compared(ctx, [](ValueRange a, ValueRange b) { return below(b, a, true); });
}
ValueRange range_of_equal(RangeContext& ctx) {
  return compared(ctx, [](ValueRange a, ValueRange b) {
    return condition(is_point(a) && is_point(b) && a.low == b.low, a.high < b.low || a.low > b.high);
  });
}
ValueRange range_of_and(RangeContext& ctx) { return least(ctx.input(0), ctx.input(1)); }
ValueRange range_of_or(RangeContext& ctx) { return largest(ctx.input(0), ctx.input(1)); }
ValueRange range_of_not(RangeContext& ctx) { return make(1 - ctx.input(0).high, 1 - ctx.input(0).low, false); }
ValueRange range_of_is_nan(RangeContext& ctx) { return condition(false, !ctx.input(0).may_be_nan); }
ValueRange range_of_is_infinite(RangeContext& ctx) { return condition(false, ctx.input(0).is_finite()); }

ValueRange range_of_choice(RangeContext& ctx) {
  ValueRange which = ctx.input(0);
  if (which.low == 1) return ctx.input(1);
  return which.high == 0 ? ctx.input(2) : united(ctx.input(1), ctx.input(2));
}
ValueRange range_of_cast(RangeContext& ctx) {
  const ValueRange from = ctx.input(0), anything = ctx.anything();
  const DType dtype = ctx.type()->dtype();
  if (dtype == DType::Bool) {
    return condition(from.low > 0 || from.high < 0, from.low == 0 && from.high == 0 && !from.may_be_nan);
  }
  if (!is_integer(dtype)) return ctx.fitted(from);
  if (!from.is_finite() || from.low <= anything.low || from.high >= anything.high) return anything;
  return make(std::trunc(from.low), std::trunc(from.high), false);
}
ValueRange range_of_counts(RangeContext& ctx) { return make(0, ctx.anything().high, false); }
ValueRange range_of_fill(RangeContext& ctx) {
  const AttributeValue* value = ctx.node().attributes().find("value");
  if (!value) return make(0, 0, false);
  const Tensor& fill = std::get<Tensor>(*value);
  const bool is_exact = is_float(fill.dtype()) ? element_bits(fill.dtype()) >= 16
                                               : is_integer(fill.dtype()) && element_bits(fill.dtype()) >= 8;
  if (!is_exact || fill.size() != 1) return ctx.anything();
  const double number = dispatch<Numbers>(
      fill.dtype(), [&]<class T>() { return static_cast<double>(static_cast<ComputeType<T>>(fill.data<T>()[0])); });
  return std::abs(number) < 0x1p53 ? make(number, number, false) : ctx.anything();
}
ValueRange range_of_steps(RangeContext& ctx) {
  if (!is_integer(ctx.type()->dtype())) return ctx.anything();
  ValueRange start = ctx.input(0), limit = ctx.input(1), step = ctx.input(2);
  if (step.low > 0) return make(start.low, std::max(start.high, limit.high), false);
  if (step.high < 0) return make(std::min(start.low, limit.low), start.high, false);
  return ctx.anything();
}

ValueRange range_of_reduced_sum(RangeContext& ctx) {
  const double results = static_count(ctx.type());
  const double terms = results > 0 ? static_count(ctx.node().input(0)->type()) / results : 0;
  if (const ValueRange all = repeated_sum(ctx, ctx.input(0), terms); all != ValueRange{}) return all;
  const bool is_positive = is_float(ctx.type()->dtype()) && ctx.input(0).low >= 0;
  return is_positive ? intersection(ctx.otherwise(ctx.type()), make(0, kInfinity, ctx.input(0).may_be_nan)) : ctx.otherwise(ctx.type());
}
ValueRange range_of_magnitudes(RangeContext& ctx) {
  if (!is_float(ctx.type()->dtype())) return ctx.anything();
  return intersection(ctx.otherwise(ctx.type()), make(0, kInfinity, true));
}
ValueRange range_of_mean(RangeContext& ctx) {
  if (!is_float(ctx.type()->dtype()) || !ctx.input(0).is_finite()) return ctx.anything();
  ValueRange mean = ctx.fitted(blurred(ctx.input(0)));
  mean.may_be_nan = !sees_elements(ctx.node()) && !ctx.assumes_ordinary();  // 0 / 0
  return mean;
}

// The largest of nothing, or of padding alone, is below all numbers, the smallest above.
ValueRange range_of_largest(RangeContext& ctx) {
  const ValueRange x = ctx.input(0), anything = ctx.anything();
  if (anything.low >= 0) return anything;
  return sees_elements(ctx.node()) || ctx.assumes_ordinary() ? x : make(anything.low, x.high, x.may_be_nan);
}
ValueRange range_of_smallest(RangeContext& ctx) {
  const ValueRange x = ctx.input(0), anything = ctx.anything();
  if (anything.low >= 0) return anything;
  return sees_elements(ctx.node()) || ctx.assumes_ordinary() ? x : make(x.low, anything.high, x.may_be_nan);
}
ValueRange range_of_matmul(RangeContext& ctx) {
  const int64_t terms = std::max(ir::extent_of(ctx.node().input(0), -1), int64_t{0});
  const ValueRange all = repeated_sum(ctx, multiplied(ctx.input(0), ctx.input(1)), static_cast<double>(terms));
  return all != ValueRange{} ? all : ctx.otherwise(ctx.type());
}

}  // namespace anfora::ops
