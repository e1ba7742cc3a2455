// Functions of rules that answer about values: their types, what is known of their elements, who uses them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <ranges>

#include "ops/inference.h"
#include "rewrite/expression.h"
#include "support/element_types.h"
#include "support/integers.h"
#include "support/repetition.h"

namespace anfora::rewrite {
namespace {

using namespace ir;

const Type* tensor_type(const Quantity& q) {
  const Node* node = as_node(q);
  return node && node->type() && node->type()->is_tensor() ? node->type() : nullptr;
}
const Type* ranked_type(const Quantity& q) {
  const Type* type = tensor_type(q);
  return type && type->has_rank() ? type : nullptr;
}

Quantity elements(const Scope& scope, Arguments a);

// Types --------------------------------------------------------------------------------------------------------------

Quantity dtype(const Scope&, Arguments a) {
  const Node* node = as_node(a[0]);
  const Type* given = node ? node->type() : nullptr;
  const Type* type = given && given->kind() == TypeKind::Type ? given->element() : tensor_type(a[0]);
  return type && type->dtype() != DType::Undefined ? Quantity(static_cast<int64_t>(type->dtype())) : NotKnown{};
}
Quantity rank(const Scope&, Arguments a) {
  const Type* type = ranked_type(a[0]);
  return type ? Quantity(static_cast<int64_t>(type->rank())) : NotKnown{};
}
Quantity shape(const Scope&, Arguments a) {
  const Type* type = ranked_type(a[0]);
  return type ? from_dims(type->dims()) : NotKnown{};
}
Quantity dim(const Scope&, Arguments a) {
  const Type* type = ranked_type(a[0]);
  auto i = as_integer(a[1]);
  if (!type || !i) return NotKnown{};
  int64_t at = *i < 0 ? *i + type->rank() : *i;
  return at >= 0 && at < type->rank() ? from_dim(type->dim(static_cast<int>(at))) : NotKnown{};
}
Quantity size(const Scope& scope, Arguments a) {
  const Type* type = ranked_type(a[0]);
  if (!type) return NotKnown{};
  Dim total = scope.dims().constant(1);
  for (Dim d : type->dims()) total = total * d;
  return from_dim(total);
}

template <bool (*Predicate)(DType)>
Quantity dtype_is(const Scope&, Arguments a) {
  const Type* type = tensor_type(a[0]);
  return type && type->dtype() != DType::Undefined ? Quantity(Predicate(type->dtype())) : NotKnown{};
}
bool is_bool_dtype(DType dtype) { return dtype == DType::Bool; }
bool is_integer_dtype(DType dtype) { return is_integer(dtype); }
bool is_signed_dtype(DType dtype) { return is_signed_integer(dtype); }
bool is_float_dtype(DType dtype) {
  return dtype == DType::F16 || dtype == DType::BF16 || dtype == DType::F32 || dtype == DType::F64;
}

std::optional<bool> have_same_shape(const Type* a, const Type* b) {
  if (a->rank() != b->rank()) return false;
  std::optional<bool> same = true;
  for (int i = 0; i < a->rank(); ++i) {
    if (provably_equal(a->dim(i), b->dim(i))) continue;
    if (provably_different(a->dim(i), b->dim(i))) return false;
    same = std::nullopt;
  }
  return same;
}

Quantity same_shape(const Scope&, Arguments a) {
  const Type *x = ranked_type(a[0]), *y = ranked_type(a[1]);
  if (!x || !y) return NotKnown{};
  auto same = have_same_shape(x, y);
  return same ? Quantity(*same) : NotKnown{};
}

Quantity same_type(const Scope& scope, Arguments a) {
  const Type *x = tensor_type(a[0]), *y = tensor_type(a[1]);
  if (!x || !y || x->dtype() == DType::Undefined || y->dtype() == DType::Undefined) return NotKnown{};
  return x->dtype() == y->dtype() ? same_shape(scope, a) : Quantity(false);
}

// Broadcasting the first against the second gives the shape of the second.
Quantity broadcasts_to(const Scope& scope, Arguments a) {
  const Type* x = ranked_type(a[0]);
  std::optional<Dims> target;
  if (const Type* y = ranked_type(a[1])) {
    target = Dims(y->dims().begin(), y->dims().end());
  } else {
    target = as_dims(a[1], scope.dims());
  }
  if (!x || !target) return NotKnown{};
  int extra = static_cast<int>(target->size()) - x->rank();
  if (extra < 0) return false;
  for (int i = 0; i < x->rank(); ++i) {
    Dim have = x->dim(i), want = (*target)[static_cast<size_t>(i + extra)];
    if (have.as_constant() == 1 || provably_equal(have, want)) continue;
    return provably_different(have, want) ? Quantity(false) : NotKnown{};
  }
  return true;
}

// Whether one of the two has the shape that both have together.
Quantity either_covers(const Scope& scope, Arguments a) {
  Quantity swapped[] = {a[1], a[0]};
  Quantity first = broadcasts_to(scope, a), second = broadcasts_to(scope, swapped);
  if (is_true(first) || is_true(second)) return true;
  return is_known(first) && is_known(second) ? Quantity(false) : NotKnown{};
}

// The axes that a reduction takes away or makes 1, from the front, in rising order.
Quantity reduced_axes(const Scope& scope, Arguments a) {
  const Node* node = as_node(a[0]);
  const Apply* reduction = node ? node->as_apply() : nullptr;
  const Type* type = reduction && reduction->num_inputs() > 0 ? ranked_type(reduction->input(0)) : nullptr;
  if (!type) return NotKnown{};
  std::vector<int64_t> axes;
  if (reduction->has_input(1)) {
    Quantity given[] = {Quantity(reduction->input(1))};
    auto list = as_integers(elements(scope, given));
    if (!list) return NotKnown{};
    axes = std::move(*list);
  }
  const bool none_means_all = reduction->attributes().get_int("noop_with_empty_axes", 0) == 0;
  if (axes.empty() && none_means_all) {
    for (int i = 0; i < type->rank(); ++i) axes.push_back(i);
  }
  for (int64_t& axis : axes) axis += axis < 0 ? type->rank() : 0;
  std::ranges::sort(axes);
  return axes;
}

Quantity widens(const Scope& scope, Arguments a) {
  const Type* type = tensor_type(a[0]);
  auto from = type ? std::optional(static_cast<int64_t>(type->dtype())) : as_integer(a[0]);
  auto to = as_integer(a[1]);
  if (!from || !to || *from == 0) return NotKnown{};
  if (is_widening(static_cast<DType>(*from), static_cast<DType>(*to))) return true;
  if (!type || !is_integer(type->dtype())) return false;
  const analysis::ValueRange range = scope.rewriter.range(as_node(a[0]));
  return has_integers(static_cast<DType>(*to), range.low, range.high);
}

// The dimensions of the first are those of the list, ones in front not counted: it broadcasts like a tensor of that shape.
Quantity has_shape(const Scope& scope, Arguments a) {
  const Type* x = ranked_type(a[0]);
  auto dims = as_dims(a[1], scope.dims());
  if (!x || !dims) return NotKnown{};
  int extra = x->rank() - static_cast<int>(dims->size());
  if (extra < 0) return false;
  for (int i = 0; i < x->rank(); ++i) {
    Dim want = i < extra ? scope.dims().constant(1) : (*dims)[static_cast<size_t>(i - extra)];
    if (provably_equal(x->dim(i), want)) continue;
    return provably_different(x->dim(i), want) ? Quantity(false) : NotKnown{};
  }
  return true;
}

// Elements ------------------------------------------------------------------------------------------------------------

Quantity is_constant(const Scope&, Arguments a) {
  if (const Nodes* nodes = std::get_if<Nodes>(&a[0])) return std::ranges::all_of(*nodes, constant_tensor);
  return constant_tensor(as_node(a[0])) != nullptr;
}

// Both left out, or constants of one type.
bool are_alike(const ir::Node* a, const ir::Node* b) {
  if (!a || !b) return a == b;
  const Tensor *x = constant_tensor(a), *y = constant_tensor(b);
  return x && y && x->dtype() == y->dtype() && std::ranges::equal(x->shape(), y->shape());
}
Quantity alike(const Scope&, Arguments a) {
  const Nodes *first = std::get_if<Nodes>(&a[0]), *second = std::get_if<Nodes>(&a[1]);
  if (first && second) return std::ranges::equal(*first, *second, are_alike);
  return are_alike(as_node(a[0]), as_node(a[1]));
}

Quantity value(const Scope&, Arguments a) {
  auto number = splat_value(as_node(a[0]));
  if (!number) return NotKnown{};
  DType type = constant_tensor(as_node(a[0]))->dtype();
  if (type == DType::Bool) return *number != 0;
  if (!is_integer(type)) return *number;
  if (std::abs(*number) < 0x1p53) return static_cast<int64_t>(*number);
  return NotKnown{};  // a double does not tell it from its neighbours
}

Quantity elements(const Scope& scope, Arguments a) {
  if (const Nodes* nodes = std::get_if<Nodes>(&a[0])) {
    std::vector<int64_t> all;
    for (Node* each : *nodes) {
      const Quantity own[] = {each};
      auto integers = as_integers(elements(scope, own));
      if (!integers) return NotKnown{};
      all.insert(all.end(), integers->begin(), integers->end());
    }
    return all;
  }
  Node* node = as_node(a[0]);
  if (!node) return NotKnown{};
  if (const Tensor* t = constant_tensor(node); t && t->rank() <= 1 && t->size() <= 1024) {
    if (auto integers = integers_of(t)) return *std::move(integers);
    if (t->dtype() == DType::F32) return std::vector<double>(t->data<float>().begin(), t->data<float>().end());
  }
  auto known = scope.rewriter.inference().elements(node);
  if (!known || std::ranges::any_of(*known, &Dim::is_unknown)) return NotKnown{};
  return from_dims(std::span<const Dim>(known->data(), known->size()));
}

Quantity counts(const Scope&, Arguments a) {
  const Tensor* t = constant_tensor(as_node(a[0]));
  if (!t || !is_integer(t->dtype())) return false;
  auto integers = integers_of(t);
  if (!integers) return NotKnown{};
  for (int64_t i = 0; int64_t element : *integers) {
    if (element != i++) return false;
  }
  return true;
}

Quantity combinable(const Scope& scope, Arguments a) {
  if (!constant_tensor(as_node(a[0])) || !constant_tensor(as_node(a[1]))) return false;
  return either_covers(scope, a);
}

// The least and the greatest |x| of a constant's elements other than 0.
struct Magnitudes {
  double least = std::numeric_limits<double>::infinity(), greatest = 0;
  bool has_zero = false;
};
std::optional<Magnitudes> magnitudes_of(const Quantity& q) {
  constexpr int64_t kMostReadElements = 1 << 24;
  if (auto number = as_number(q); number && *number != 0) return Magnitudes{std::abs(*number), std::abs(*number)};
  const Tensor* t = constant_tensor(as_node(q));
  if (!t || t->size() > kMostReadElements || !is_float_dtype(t->dtype())) return std::nullopt;
  return dispatch<Floats>(t->dtype(), [&]<class T>() -> std::optional<Magnitudes> {
    Magnitudes m;
    for (T element : t->data<T>()) {
      double x = std::abs(static_cast<double>(static_cast<ComputeType<T>>(element)));
      if (!std::isfinite(x)) return std::nullopt;
      m.has_zero = m.has_zero || x == 0;
      if (x == 0) continue;
      m.least = std::min(m.least, x);
      m.greatest = std::max(m.greatest, x);
    }
    return m;
  });
}

bool are_normal(double least, double greatest, DType dtype) {
  switch (dtype) {
    case DType::F16: return least >= 0x1p-14 && greatest <= 65504;
    case DType::BF16:
    case DType::F32: return least >= 0x1p-126 && greatest <= 0x1.fep127;
    default: return least >= 0x1p-1022 && greatest <= std::numeric_limits<double>::max();
  }
}

// Whether (x + c) + d = x + (c + d) but for a little rounding. (x + M) − M with a large M is not x: it rounds x, and is written for
// that. So constants either do not cancel, having one sign, or are too small to round x much. Integers wrap around.
bool is_moderate(const Quantity& q, DType dtype) {
  double epsilon = dtype == DType::F64   ? 0x1p-53
                   : dtype == DType::F32 ? 0x1p-24
                   : dtype == DType::F16 ? 0x1p-11
                                         : 0x1p-8;
  auto m = magnitudes_of(q);
  return m && m->greatest * epsilon <= 0x1p-14;
}
// Whether nothing is left of the digits of one constant where it is added to the other: log(1 − x + 1e-10) asks for the 1e-10 where
// 1 − x is 0, and 1 + 1e-10 is 1.
bool absorbs(const Quantity& large, const Quantity& small, DType dtype) {
  const double most = dtype == DType::F64   ? 0x1p-39
                      : dtype == DType::F32 ? 0x1p-10
                      : dtype == DType::F16 ? 0x1p-4
                                            : 0x1p-3;
  const auto c = magnitudes_of(large), d = magnitudes_of(small);
  return c && d && d->greatest > 0 && d->greatest < c->least * most;
}
template <bool Subtract>
Quantity summable(const Scope& scope, Arguments a) {
  Quantity fits = combinable(scope, a);
  if (!is_true(fits)) return fits;
  DType dtype = constant_tensor(as_node(a[0]))->dtype();
  if (!is_float(dtype)) return true;
  if (absorbs(a[0], a[1], dtype) || absorbs(a[1], a[0], dtype)) return false;
  if (is_moderate(a[0], dtype) && is_moderate(a[1], dtype)) return true;
  analysis::ValueRange c = scope.rewriter.range(as_node(a[0])), d = scope.rewriter.range(as_node(a[1]));
  if (Subtract) d = {-d.high, -d.low, d.may_be_nan};
  return (c.low >= 0 && d.low >= 0) || (c.high <= 0 && d.high <= 0);
}

// Products of integers wrap around, which loses nothing either.
Quantity normal_product(const Scope&, Arguments a) {
  const Type* type = tensor_type(a[1]);
  if (!type || !is_float(type->dtype())) return type != nullptr;
  auto x = magnitudes_of(a[0]), y = magnitudes_of(a[1]);
  return x && y && are_normal(x->least * y->least, x->greatest * y->greatest, type->dtype());
}
Quantity normal_quotient(const Scope&, Arguments a) {
  const Type* type = tensor_type(a[1]);
  const Tensor* divisor = constant_tensor(as_node(a[1]));
  if (!divisor || !is_float(type->dtype())) return false;
  auto x = magnitudes_of(a[0]), y = magnitudes_of(a[1]);
  return x && y && !y->has_zero && are_normal(x->least / y->greatest, x->greatest / y->least, type->dtype());
}

// The first of the axes that a vector lists where they are all axes of x from there on.
Quantity last_axes(const Scope& scope, Arguments a) {
  const Type* type = ranked_type(a[1]);
  auto axes = as_integers(elements(scope, a.first(1)));
  if (!type || !axes || axes->empty()) return NotKnown{};
  for (int64_t& axis : *axes) axis += axis < 0 ? type->rank() : 0;
  std::ranges::sort(*axes);
  for (size_t i = 0; i < axes->size(); ++i) {
    if ((*axes)[i] != type->rank() - static_cast<int64_t>(axes->size() - i)) return NotKnown{};
  }
  return axes->front();
}

Quantity unrepeated(const Scope& scope, Arguments a) {
  const Tensor* t = constant_tensor(as_node(a[0]));
  auto part = t ? without_repetition(*t) : std::nullopt;
  return part ? Quantity(scope.rewriter.constant(std::move(*part))) : NotKnown{};
}

// What a range does not show is not known: it may hold all the same.
template <bool (*Shows)(const analysis::ValueRange&)>
Quantity range_shows(const Scope& scope, Arguments a) {
  const Node* node = as_node(a[0]);
  return node && Shows(scope.rewriter.range(node)) ? Quantity(true) : NotKnown{};
}
bool is_nonnegative(const analysis::ValueRange& r) { return r.low >= 0; }
bool is_positive(const analysis::ValueRange& r) { return r.low > 0; }
bool is_nonzero(const analysis::ValueRange& r) { return r.low > 0 || r.high < 0; }
bool is_finite_range(const analysis::ValueRange& r) { return r.is_finite(); }
bool has_no_nan(const analysis::ValueRange& r) { return !r.may_be_nan; }
// What is no float has neither NaN nor infinity.
template <bool MayBeInfinite>
Quantity is_ordinary(const Scope& scope, Arguments a) {
  const Node* node = as_node(a[0]);
  if (!node) return NotKnown{};
  if (scope.rewriter.assumes_finite()) return true;
  const Type* type = tensor_type(a[0]);
  if (type && type->dtype() != DType::Undefined && !is_float(type->dtype()) && !is_complex(type->dtype())) return true;
  const analysis::ValueRange range = scope.rewriter.ordinary_range(node);
  return (MayBeInfinite ? !range.may_be_nan : range.is_finite()) ? Quantity(true) : NotKnown{};
}
Quantity lowest(const Scope& scope, Arguments a) { return scope.rewriter.range(as_node(a[0])).low; }
Quantity highest(const Scope& scope, Arguments a) { return scope.rewriter.range(as_node(a[0])).high; }
Quantity at_most(const Scope& scope, Arguments a) {
  const Node *x = as_node(a[0]), *y = as_node(a[1]);
  return x && y && x != y && scope.rewriter.at_most(x, y) ? Quantity(true) : NotKnown{};
}

// What has the same sign, or at least the same zeros: what x is computed from.
enum class Keeps : uint8_t { Sign, Zeros };
Node* without_scaling(Rewriter& rewriter, Apply& x, Keeps kept) {
  const Type* type = x.type();
  if (x.primitive() != Primitive::Operation || !type || !type->is_tensor() || x.num_inputs() == 0) return nullptr;
  if (x.op().keeps_sign) return x.input(0);
  const bool zeros_only = kept == Keeps::Zeros && is_float_dtype(type->dtype());
  if (zeros_only && (x.is("Neg") || x.is("Abs"))) return x.input(0);
  if (zeros_only && x.is("Mul") && x.input(0) == x.input(1)) return x.input(0);
  if (zeros_only && x.is("Pow") && splat_value(x.input(1)).value_or(0) > 0) return x.input(0);
  auto is_positive = [&](Node* n) {
    const analysis::ValueRange range = rewriter.ordinary_range(n);
    return range.is_finite() && (range.low > 0 || (range.is_positive() && !zeros_only));
  };
  auto is_negative = [&](Node* n) {
    return rewriter.ordinary_range(n).is_finite() && rewriter.ordinary_range(n).high < 0;
  };
  const bool scales = is_float_dtype(type->dtype()) && (x.is("Mul") || x.is("Div"));
  if (x.num_inputs() == 2 && (scales || x.is("Min") || x.is("Max"))) {
    auto is_neutral = [&](Node* n) {
      return x.is("Max") ? is_negative(n) : is_positive(n) || (zeros_only && scales && is_negative(n));
    };
    if (is_neutral(x.input(1))) return x.input(0);
    if (!x.is("Div") && is_neutral(x.input(0))) return x.input(1);
  }
  const bool clips =
      x.is("Clip") && (!x.has_input(1) || is_negative(x.input(1))) && (!x.has_input(2) || is_positive(x.input(2)));
  return clips ? x.input(0) : nullptr;
}
// Whether all elements are whole numbers, infinities or NaNs.
bool are_whole(const Node* node, int depth) {
  const Type* type = node ? node->type() : nullptr;
  if (!type || !type->is_tensor()) return false;
  if (is_integer(type->dtype()) || type->dtype() == DType::Bool) return true;
  if (auto number = splat_value(node)) return std::trunc(*number) == *number;
  const Apply* apply = node->as_apply();
  if (!apply || apply->primitive() != Primitive::Operation || apply->num_outputs() != 1 || depth == 0) return false;
  if (apply->op().whole == Whole::Always) return true;
  auto operand = [&](const Use& use) { return !use.node || are_whole(use.node, depth - 1); };
  if (apply->op().takes_elements) return operand(apply->operands()[0]);
  if (apply->is("Pow")) {  // the powers of 0 are 0, 1 and ∞
    const auto base = splat_value(apply->input(0));
    return base == 0 || base == 1 || base == -1;
  }
  return apply->op().whole == Whole::OfWhole && std::ranges::all_of(apply->operands(), operand);
}
Quantity whole(const Scope& scope, Arguments a) {
  constexpr int kDeepest = 6;
  const analysis::ValueRange range = scope.rewriter.ordinary_range(as_node(a[0]));
  if (range.low == range.high && std::trunc(range.low) == range.low) return true;
  return are_whole(as_node(a[0]), kDeepest) ? Quantity(true) : NotKnown{};
}

// Whether the signs of all operands decide the sign of the result, or their zeros its zeros.
bool follows_operands(const Apply& x, Keeps kept) {
  if (x.op().movement != Movement::None || x.is("Concat")) return true;
  if (kept == Keeps::Zeros || !is_float_dtype(x.type()->dtype())) return false;
  return x.is("Mul") || x.is("Div") || x.op().piecewise == PiecewiseOp::Min || x.op().piecewise == PiecewiseOp::Max;
}

// Where others read what x is computed from, nothing is won.
Node* source_of(Rewriter& rewriter, Node* x, Keeps kept, int depth) {
  Apply* apply = x->as_apply();
  while (apply) {
    Node* next = without_scaling(rewriter, *apply, kept);
    if (!next) break;
    x = next;
    apply = x->as_apply();
  }
  if (!apply || depth == 0 || apply->primitive() != Primitive::Operation || apply->num_outputs() != 1 || !apply->has_one_use() || !ranked_type(Quantity(apply)) ||
      !follows_operands(*apply, kept))
    return x;
  boost::container::small_vector<Node*, 4> operands;
  bool differs = false;
  for (const Use& use : apply->operands()) {
    const bool is_number = use.node && ranked_type(Quantity(use.node)) && use.node->type()->dtype() == apply->type()->dtype();
    Node* operand = is_number ? source_of(rewriter, use.node, kept, depth - 1) : use.node;
    const bool fits = operand == use.node || have_same_shape(operand->type(), use.node->type()) == true;
    operands.push_back(fits ? operand : use.node);
    differs = differs || operands.back() != use.node;
  }
  return differs ? rewriter.apply(apply->op(), operands, apply->attributes()) : x;
}

template <Keeps kept>
Quantity source(const Scope& scope, Arguments a) {
  constexpr int kDeepest = 4;
  Node* start = as_node(a[0]);
  Node* source = start ? source_of(scope.rewriter, start, kept, kDeepest) : nullptr;
  return source != start ? Quantity(source) : NotKnown{};
}

// A constant of the element type of x.
Quantity like(const Scope& scope, Arguments a) {
  auto number = as_number(a[0]);
  const Type* type = tensor_type(a[1]);
  if (!number || !type) return NotKnown{};
  auto scalar = scalar_of(type->dtype(), *number);
  return scalar ? Quantity(scope.rewriter.constant(std::move(*scalar))) : NotKnown{};
}
// A constant of such a shape and of the element type of x.
Quantity splat(const Scope& scope, Arguments a) {
  auto number = as_number(a[0]);
  auto shape = as_integers(a[1]);
  const Type* type = tensor_type(a[2]);
  auto scalar = number && type ? scalar_of(type->dtype(), *number) : std::nullopt;
  if (!scalar || !shape || std::ranges::any_of(*shape, [](int64_t d) { return d < 0; })) return NotKnown{};
  Tensor all = Tensor::allocate(type->dtype(), *shape);
  size_t size = element_bytes(type->dtype());
  for (int64_t i = 0; i < all.size(); ++i) {
    std::memcpy(static_cast<std::byte*>(all.raw()) + static_cast<size_t>(i) * size, scalar->raw(), size);
  }
  return scope.rewriter.constant(std::move(all));
}
// channels(number, x): a value a channel of x, all of them the number.
Quantity channels(const Scope& scope, Arguments a) {
  const Type* type = tensor_type(a[1]);
  if (!type || !type->has_rank() || type->rank() < 2) return NotKnown{};
  Dims shape(static_cast<size_t>(type->rank()), scope.dims().constant(1));
  shape[1] = type->dim(1);
  const Quantity all[] = {a[0], from_dims(shape), a[1]};
  return splat(scope, all);
}
Quantity vector(const Scope& scope, Arguments a) {
  auto list = as_integers(a[0]);
  return list ? Quantity(scope.rewriter.integers(*list)) : NotKnown{};
}

// Windows ---------------------------------------------------------------------------------------------------------
//
// Lists that convolutions and pools may leave out, as they are meant.

// The attribute, or `otherwise` for each of the axes behind the channels, `times` of them.
Quantity window_attribute(const Quantity& q, std::string_view name, int64_t otherwise, size_t times) {
  const Node* node = as_node(q);
  const Apply* apply = node ? node->as_apply() : nullptr;
  const Type* type = apply && apply->num_inputs() > 0 ? ranked_type(Quantity(apply->input(0))) : nullptr;
  if (!type || type->rank() < 3) return NotKnown{};
  std::vector<int64_t> list = apply->attributes().get_ints(name, std::vector<int64_t>());
  size_t length = times * static_cast<size_t>(type->rank() - 2);
  if (list.empty()) list.assign(length, otherwise);
  return list.size() == length ? Quantity(list) : NotKnown{};
}

Quantity pads(const Scope&, Arguments a) {
  const Node* node = as_node(a[0]);
  const Apply* apply = node ? node->as_apply() : nullptr;
  if (!apply) return NotKnown{};
  std::string automatic = apply->attributes().get_string("auto_pad", "NOTSET");
  if (automatic == "NOTSET") return window_attribute(a[0], "pads", 0, 2);
  return automatic == "VALID" ? window_attribute(a[0], "", 0, 2) : NotKnown{};
}
Quantity strides(const Scope&, Arguments a) { return window_attribute(a[0], "strides", 1, 1); }
Quantity dilations(const Scope&, Arguments a) { return window_attribute(a[0], "dilations", 1, 1); }

// Of a convolution without the attribute, what its weights have.
Quantity kernel(const Scope&, Arguments a) {
  const Node* node = as_node(a[0]);
  const Apply* apply = node ? node->as_apply() : nullptr;
  if (!apply) return NotKnown{};
  if (apply->attributes().has("kernel_shape")) return window_attribute(a[0], "kernel_shape", 1, 1);
  const Type* weights = apply->num_inputs() > 1 ? ranked_type(Quantity(apply->input(1))) : nullptr;
  return weights && weights->rank() > 2 ? from_dims(weights->dims().subspan(2)) : NotKnown{};
}

// middle(n): the place of the middle of its window, (kernel − 1) / 2; not known where there is none.
Quantity middle(const Scope& scope, Arguments a) {
  auto window = as_integers(kernel(scope, a));
  if (!window) return NotKnown{};
  for (int64_t& length : *window) {
    if (length % 2 == 0) return NotKnown{};
    length /= 2;
  }
  return *window;
}

// Uses ------------------------------------------------------------------------------------------------------------

Quantity single_use(const Scope& scope, Arguments a) {
  if (a.empty()) {
    return std::ranges::all_of(std::span(scope.match.applications).subspan(1), &Node::has_one_use);
  }
  const Node* node = as_node(a[0]);
  return node && node->has_one_use();
}

int64_t num_uses(const Node& node) { return std::ranges::distance(node.uses()); }

// reads(n, i): how often result i of an application is an operand.
Quantity reads(const Scope&, Arguments a) {
  const Node* node = as_node(a[0]);
  const Apply* apply = node ? node->as_apply() : nullptr;
  const auto index = as_integer(a[1]);
  if (!apply || !index) return NotKnown{};
  if (apply->num_outputs() == 1) return *index == 0 ? num_uses(*apply) : int64_t{0};
  int64_t count = 0;
  for (const Use& use : apply->uses()) {
    if (use.user->primitive() != Primitive::TupleGetItem) return NotKnown{};
    if (use.user->attributes().require_int("index") == *index) count += num_uses(*use.user);
  }
  return count;
}

Quantity local(const Scope& scope, Arguments) {
  return std::ranges::all_of(scope.match.applications,
                             [&](const Apply* apply) { return apply->graph() == scope.root().graph(); });
}

Quantity is_absent(const Scope&, Arguments a) { return !is_known(a[0]); }

Quantity operator_name(const Scope&, Arguments a) {
  const Node* node = as_node(a[0]);
  const Apply* apply = node ? node->as_apply() : nullptr;
  return apply ? Quantity(std::string(apply->op().qualified)) : NotKnown{};
}

Quantity is_view(const Scope&, Arguments a) {
  const Node* node = as_node(a[0]);
  if (!node) return NotKnown{};
  const Apply* apply = node->as_apply();
  return apply && apply->op().fusion == FusionKind::View;
}

// Users are looked at up to a number, so that it takes no longer where there are many.
Quantity has_transpose(const Scope&, Arguments a) {
  constexpr int kMostUsers = 16;
  const Node* node = as_node(a[0]);
  const Node* other_node = as_node(a[2]);
  const Apply* other = other_node ? other_node->as_apply() : nullptr;
  auto perm = as_integers(a[1]);
  if (!node || !other || !perm) return NotKnown{};
  int seen = 0;
  for (const Use& use : node->uses()) {
    if (++seen > kMostUsers) break;
    if (use.user != other && use.user->graph() == other->graph() && use.user->is("Transpose") && use.user->has_uses() &&
        std::ranges::equal(use.user->attributes().get_ints("perm", {}), *perm))
      return true;
  }
  return false;
}

// Of the constant matrices that a mask consists of: whether all are 0 up to the diagonal, and take all weight behind it.
Quantity hides_later(const Scope&, Arguments a) {
  constexpr double kHidden = -1e30;
  const Tensor* mask = constant_tensor(as_node(a[0]));
  if (!mask || mask->dtype() != DType::F32 || mask->rank() < 2) return false;
  const int64_t rows = mask->dim(mask->rank() - 2), columns = mask->dim(mask->rank() - 1);
  const auto elements = mask->data<float>();
  return std::ranges::all_of(std::views::iota(size_t{0}, elements.size()), [&](size_t i) {
    const auto place = static_cast<int64_t>(i);
    return place % columns <= place / columns % rows ? elements[i] == 0 : elements[i] <= kHidden;
  });
}

Quantity rows_have_numbers(const Scope&, Arguments a) {
  const Tensor* constant = constant_tensor(as_node(a[0]));
  if (!constant || constant->dtype() != DType::F32 || constant->rank() == 0) return false;
  const auto elements = constant->data<float>();
  const auto row = static_cast<size_t>(constant->dim(constant->rank() - 1));
  for (size_t i = 0; i < elements.size(); i += row) {
    if (std::ranges::none_of(elements.subspan(i, row), [](float x) { return std::isfinite(x); })) return false;
  }
  return true;
}

Quantity used_only_by(const Scope&, Arguments a) {
  const Node* node = as_node(a[0]);
  if (!node) return NotKnown{};
  return std::ranges::all_of(node->uses(), [&](const Use& use) {
    return std::ranges::any_of(a.subspan(1), [&](const Quantity& name) {
      const auto* text = std::get_if<std::string>(&name);
      return text && use.user->is(*text);
    });
  });
}

Quantity meets_constants(const Scope&, Arguments a) {
  const Node* node = as_node(a[0]);
  if (!node) return NotKnown{};
  return std::ranges::all_of(node->uses(), [&](const Use& use) {
    return std::ranges::all_of(use.user->operands(),
                               [&](const Use& other) { return other.node == node || constant_tensor(other.node); });
  });
}

Quantity uses(const Scope&, Arguments a) {
  const Node* node = as_node(a[0]);
  return node ? Quantity(num_uses(*node)) : NotKnown{};
}

constexpr Function kValueFunctions[] = {
    {"dtype", 1, 1, dtype, "dtype(x): its element type, or of a type which that is; f32, i64, … are constants"},
    {"rank", 1, 1, rank, "rank(x): the number of its dimensions"},
    {"shape", 1, 1, shape, "shape(x): the list of its dimensions, which may be symbolic"},
    {"dim", 2, 2, dim, "dim(x, i): dimension i; a negative i counts from the end"},
    {"size", 1, 1, size, "size(x): the number of its elements"},
    {"is_float", 1, 1, dtype_is<is_float_dtype>, "is_float(x): of type f16, bf16, f32 or f64"},
    {"is_integer", 1, 1, dtype_is<is_integer_dtype>, "is_integer(x): of an integer type"},
    {"is_signed", 1, 1, dtype_is<is_signed_dtype>, "is_signed(x): of a signed integer type"},
    {"is_bool", 1, 1, dtype_is<is_bool_dtype>, "is_bool(x): of type bool"},
    {"same_shape", 2, 2, same_shape, "same_shape(x, y): provably"},
    {"same_type", 2, 2, same_type, "same_type(x, y): the same element type and shape"},
    {"broadcasts_to", 2, 2, broadcasts_to,
     "broadcasts_to(x, y): broadcasting x with y (or a shape) gives the shape of y"},
    {"either_covers", 2, 2, either_covers, "either_covers(x, y): one of them has the shape that both have together"},
    {"reduced_axes", 1, 1, reduced_axes,
     "reduced_axes(n): the axes that a Reduce… reduces, from the front, in rising order"},
    {"widens", 2, 2, widens, "widens(x, t): every value of the element type x, or that the node x may have, is one of type t"},
    {"const", 1, 1, is_constant, "const(x): a constant tensor; of x..., all of them"},
    {"alike", 2, 2, alike, "alike(c, d): constants of one type, or both left out; of lists, each and each"},
    {"value", 1, 1, value, "value(c): the number that all elements of a constant are"},
    {"unrepeated", 1, 1, unrepeated, "unrepeated(c): the part of a constant that repeats itself along axes; not known where it does not"},
    {"counts", 1, 1, counts, "counts(c): whether its elements, row by row, are 0, 1, 2, …"},
    {"elements", 1, 1, elements, "elements(x): the list of the elements of a vector, constants or shape arithmetic"},
    {"combinable", 2, 2, combinable, "combinable(c, d): constants, of which one has the shape that both have together"},
    {"addable", 2, 2, summable<false>,
     "addable(c, d): combinable, and x + c + d is about x + (c + d): they are small, or do not cancel, and "
     "neither is lost in the other"},
    {"subtractable", 2, 2, summable<true>, "subtractable(c, d): the same of x + c − d and x + (c − d)"},
    {"normal_product", 2, 2, normal_product,
     "normal_product(c, d): products of elements of two constants neither overflow nor lose digits by being denormal"},
    {"normal_quotient", 2, 2, normal_quotient,
     "normal_quotient(c, d): the same of quotients of floats; c may be a number"},
    {"has_shape", 2, 2, has_shape,
     "has_shape(x, list): its dimensions are those of the list, ones in front not counted"},
    {"last_axes", 2, 2, last_axes,
     "last_axes(s, x): the first of the axes that the vector s lists, where they are all axes of x from there on"},
    {"nonnegative", 1, 1, range_shows<is_nonnegative>, "nonnegative(x): no element is below 0"},
    {"positive", 1, 1, range_shows<is_positive>, "positive(x): every element is above 0"},
    {"nonzero", 1, 1, range_shows<is_nonzero>, "nonzero(x): all elements are above 0, or all are below"},
    {"finite", 1, 1, range_shows<is_finite_range>, "finite(x): no element is infinite or a NaN"},
    {"never_nan", 1, 1, range_shows<has_no_nan>, "never_nan(x): no element is a NaN"},
    {"number", 1, 1, is_ordinary<true>,
     "number(x): no element is a NaN, as long as the model's inputs are finite and nothing overflows"},
    {"ordinary", 1, 1, is_ordinary<false>,
     "ordinary(x): no element is infinite or a NaN, as long as the model's inputs are finite and nothing overflows"},
    {"lowest", 1, 1, lowest, "lowest(x): a lower bound of its elements"},
    {"highest", 1, 1, highest, "highest(x): an upper bound of its elements"},
    {"at_most", 2, 2, at_most,
     "at_most(x, y): x ≤ y, for two different values, wherever both are numbers, as long as the model's inputs are "
     "finite and nothing overflows"},
    {"whole", 1, 1, whole, "whole(x): all elements are whole numbers (infinities and NaNs not counted)"},
    {"sign_source", 1, 1, source<Keeps::Sign>,
     "sign_source(x): what x is computed from that has the same sign: y of y · 2, max(y, −1), tanh(y), and y · z of tanh(y) · z"},
    {"zero_source", 1, 1, source<Keeps::Zeros>,
     "zero_source(x): what x is computed from that is 0 where x is: y of y · y, −y, |y|"},
    {"like", 2, 2, like, "like(number, x): the number as a scalar constant of x's element type"},
    {"splat", 3, 3, splat, "splat(number, list, x): a constant of that shape and of x's element type, of that number"},
    {"channels", 2, 2, channels, "channels(number, x): the number for each channel of x, [1, dim(x, 1), 1, …]"},
    {"vector", 1, 1, vector, "vector(list): a constant i64 vector"},
    {"pads", 1, 1, pads, "pads(n): the pads of a convolution or pool, zeros where it has none"},
    {"strides", 1, 1, strides, "strides(n): its strides"},
    {"dilations", 1, 1, dilations, "dilations(n): its dilations"},
    {"middle", 1, 1, middle, "middle(n): the middle of its window, (kernel − 1) / 2; not known where lengths are even"},
    {"kernel", 1, 1, kernel, "kernel(n): the lengths of its window"},
    {"single_use", 0, 1, single_use,
     "single_use: nobody else uses what the pattern names; single_use(n): has one user"},
    {"reads", 2, 2, reads, "reads(n, i): how often result i of an application is an operand"},
    {"local", 0, 0, local, "local: all applications that the pattern names lie in one function"},
    {"is_absent", 1, 1, is_absent, "is_absent(x): x?, where it is left out"},
    {"operator", 1, 1, operator_name, "operator(n): the name of its operator"},
    {"is_view", 1, 1, is_view, "is_view(n): has the elements of its operand, in another shape (Reshape, Squeeze, …)"},
    {"has_transpose", 3, 3, has_transpose, "has_transpose(x, p, t): there is a Transpose{p}(x) that is not t"},
    {"hides_later", 1, 1, hides_later, "hides_later(m): a constant that, added to scores, hides from each query the keys behind it"},
    {"rows_have_numbers", 1, 1, rows_have_numbers, "rows_have_numbers(c): each row of the constant c has a finite element"},
    {"used_only_by", 2, 3, used_only_by, "used_only_by(n, name, name): all its users are such operators"},
    {"meets_constants", 1, 1, meets_constants, "meets_constants(n): the other operands of all its users are constants"},
    {"uses", 1, 1, uses, "uses(n): how often it is an operand"},
};

}  // namespace

std::span<const Function> functions_about_values() { return kValueFunctions; }

}  // namespace anfora::rewrite
