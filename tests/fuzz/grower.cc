#include "fuzz/grower.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "analysis/evaluate.h"
#include "anfora/error.h"
#include "rewrite/rule.h"
#include "support/element_types.h"

namespace anfora::fuzz {

using namespace ir;

namespace {

constexpr int64_t kMostElements = 4096;
constexpr size_t kMostInputs = 8;
constexpr size_t kMostSizesTried = 8;
constexpr int64_t kLargestSize = 8;  // that an input says
// Magnitudes beyond these leave nothing but rounding of what is added to them.
constexpr double kLarge = 1e4, kLargeHalf = 200;

using AnyFloat = Join<Join<Floats, Float8s>, TypeList<Float8E8M0, Float4E2M1, Float6E2M3, Float6E3M2>>;

struct Magnitude {
  double largest = 0;  // of the finite elements
  bool all_finite = true, any_negative = false;
};
Magnitude magnitude_of(const Tensor& tensor) {
  Magnitude m;
  if (!is_float(tensor.dtype())) return m;
  dispatch<AnyFloat>(tensor.dtype(), [&]<class T>() {
    for (T x : tensor.data<T>()) {
      double wide = std::abs(static_cast<double>(x));
      if (std::isfinite(wide)) m.largest = std::max(m.largest, wide);
      m.all_finite = m.all_finite && std::isfinite(wide);
      m.any_negative = m.any_negative || static_cast<double>(x) < 0;
    }
  });
  return m;
}

std::optional<std::vector<int64_t>> integers_of(const Tensor& tensor) {
  if (tensor.dtype() != DType::I64 && tensor.dtype() != DType::I32) return std::nullopt;
  std::vector<int64_t> list;
  dispatch<TypeList<int64_t, int32_t>>(tensor.dtype(), [&]<class T>() {
    for (T x : tensor.data<T>()) list.push_back(static_cast<int64_t>(x));
  });
  return list;
}

Tensor splat(const Tensor& scalar, const Shape& shape) {
  Tensor tensor = Tensor::allocate(scalar.dtype(), shape);
  size_t width = element_bytes(scalar.dtype());
  for (int64_t i = 0; i < tensor.size(); ++i) {
    std::memcpy(static_cast<std::byte*>(tensor.raw()) + static_cast<size_t>(i) * width, scalar.raw(), width);
  }
  return tensor;
}

// Conversions of what an integer type does not have differ from machine to machine.
bool has_integers_for(const Tensor& from, DType to) {
  if (!is_float(from.dtype()) || !is_integer(to)) return true;
  Magnitude m = magnitude_of(from);
  int bits = element_bits(to) - (is_signed_integer(to) ? 1 : 0);
  return m.all_finite && m.largest < std::ldexp(1.0, bits) - 1 && (is_signed_integer(to) || !m.any_negative);
}

}  // namespace

bool broadcasts_to(const Shape& from, const Shape& to) {
  if (from.size() > to.size()) return false;
  size_t behind = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != 1 && from[i] != to[behind + i]) return false;
  }
  return true;
}

Grower::Grower(Context& context, Draw& draw, Values values, bool common_types)
    : draw_(draw),
      values_(values),
      common_types_(common_types),
      module_(std::make_unique<Module>(context)),
      inference_(*module_) {
  graph_ = module_->make_graph("main");
  module_->set_main(graph_);
}

bool Grower::takes(DType dtype) const {
  if (!common_types_) return true;
  return dtype == DType::F32 || dtype == DType::I64 || dtype == DType::I32 || dtype == DType::Bool ||
         dtype == DType::U8 || dtype == DType::I8;
}

// The latest value half of the time, so that chains come up; else any.
size_t Grower::late_index(size_t count) {
  return draw_.percent(50) ? count - 1 - draw_.below(std::min<size_t>(count, 3)) : draw_.below(count);
}

bool Grower::fits(const Datum& datum, const Want& want) const {
  if (!datum.is_tensor()) return false;
  const Tensor& t = datum.tensor();
  bool any_type = want.dtype == DType::Undefined;
  if (any_type ? want.allowed && !want.allowed->empty() && std::ranges::count(*want.allowed, t.dtype()) == 0
               : t.dtype() != want.dtype) {
    return false;
  }
  if (want.broadcasts ? !broadcasts_to(t.shape(), want.shape) : t.shape() != want.shape) return false;
  if (want.values) {
    auto list = integers_of(t);
    return list && *list == *want.values;
  }
  if (want.bounds) {
    auto list = integers_of(t);
    return list &&
           std::ranges::all_of(*list, [&](int64_t i) { return i >= want.bounds->low && i <= want.bounds->high; });
  }
  return true;
}

bool Grower::has(const Want& want) const {
  return std::ranges::any_of(scope_, [&](const Node* node) { return fits(sample(node), want); });
}

Node* Grower::constant(Tensor value) {
  Node* node = module_->constant(value);
  samples_[node] = std::move(value);
  return node;
}

Node* Grower::integers(std::span<const int64_t> values) { return constant(Tensor::vector<int64_t>(values)); }

Node* Grower::scalar(DType dtype, double value) {
  auto tensor = rewrite::scalar_of(dtype, value);
  return tensor ? constant(std::move(*tensor)) : nullptr;
}

Node* Grower::input(Tensor value, const Bounds* bounds) {
  Parameter* made = module_->add_parameter(module_->main(), context().tensor_type(value.dtype(), value.shape()),
                                           fmt::format("x{}", module_->main()->parameters().size()));
  if (bounds) bounds_[made->index()] = *bounds;
  samples_[made] = std::move(value);
  return made;
}

Parameter* Grower::parameter(const Type* type, Datum value) {
  Parameter* made = module_->add_parameter(graph_, type);
  samples_[made] = std::move(value);
  return made;
}

Node* Grower::with_sample(Apply* node, Datum value) {
  if (!node->type()) node->set_type(type_of(value));
  samples_[node] = std::move(value);
  ++size_;
  return node;
}

const Type* Grower::type_of(const Datum& datum) {
  switch (datum.kind()) {
    case Datum::Kind::Tensor: return context().tensor_type(datum.tensor().dtype(), datum.tensor().shape());
    case Datum::Kind::Tuple: {
      std::vector<const Type*> items;
      for (const Datum& item : datum.items()) items.push_back(type_of(item));
      return context().tuple_type(items);
    }
    case Datum::Kind::Sequence: {
      DType dtype = datum.items().empty() ? DType::Undefined : datum.items()[0].tensor().dtype();
      return context().sequence_type(context().unranked_type(dtype));
    }
    default: return context().none_type();
  }
}

DType Grower::dtype_for(const Want& want) {
  if (want.dtype != DType::Undefined) return want.dtype;
  static const std::vector<DType> kCommon = {DType::F32, DType::F32, DType::F32, DType::F64, DType::F16, DType::BF16,
                                             DType::I64, DType::I32, DType::I8,  DType::U8,  DType::Bool};
  bool any = !want.allowed || want.allowed->empty();
  std::vector<DType> common;
  std::ranges::copy_if(kCommon, std::back_inserter(common),
                       [&](DType d) { return takes(d) && (any || std::ranges::count(*want.allowed, d) > 0); });
  bool rare = common.empty() || (!common_types_ && draw_.percent(7));
  return rare && !any ? draw_.of(*want.allowed) : draw_.of(common);
}

Tensor Grower::random_value(const Want& want, DType dtype) {
  Shape shape = want.broadcasts && draw_.percent(50) ? rules::narrower_shape(draw_, want.shape) : want.shape;
  if (want.bounds) return rules::random_tensor(dtype, shape, Values::Normal, draw_, &*want.bounds);
  static constexpr double kNumbers[] = {0, 0, 1, 1, 1, -1, 2, 0.5, 3, -0.5, 4, 6, 1e-5, -2, 0.1};
  if (draw_.percent(45)) {
    if (auto number = rewrite::scalar_of(dtype, draw_.of(kNumbers))) return splat(*number, shape);
  }
  return rules::random_tensor(dtype, shape, values_, draw_);
}

Node* Grower::leaf(const Want& want, size_t chance_of_input) {
  DType dtype = dtype_for(want);
  bool as_input = module_->main()->parameters().size() < kMostInputs && draw_.percent(chance_of_input);
  if (!as_input) return constant(random_value(want, dtype));
  Shape shape = want.broadcasts && draw_.percent(40) ? rules::narrower_shape(draw_, want.shape) : want.shape;
  const Bounds* bounds = want.bounds ? &*want.bounds : nullptr;
  return input(rules::random_tensor(dtype, shape, bounds ? Values::Normal : values_, draw_, bounds), bounds);
}

// Integers that somebody asks for: a constant, or computed from shapes as exporters write it.
Node* Grower::sizes(const Want& want) {
  DType dtype = want.dtype == DType::Undefined ? dtype_for(want) : want.dtype;
  bool computed = dtype == DType::I64 && want.shape.size() == 1 && !want.values->empty() &&
                  want.values->size() <= kMostSizesTried && draw_.percent(15);
  if (!computed) {
    std::vector<double> numbers(want.values->begin(), want.values->end());
    if (static_cast<size_t>(element_count(want.shape)) != numbers.size()) return nullptr;
    Tensor tensor = Tensor::allocate(dtype, want.shape);
    if (is_complex(dtype) || dtype == DType::String || is_sub_byte(dtype) || element_bits(dtype) < 8) return nullptr;
    dispatch<Join<Numbers, TypeList<bool>>>(dtype, [&]<class T>() {
      std::ranges::transform(numbers, tensor.data<T>().begin(),
                             [](double x) { return static_cast<T>(static_cast<ComputeType<T>>(x)); });
    });
    return constant(std::move(tensor));
  }
  std::vector<Node*> parts;
  for (int64_t size : *want.values) {
    auto has_extent = [&](const Datum& d) { return d.is_tensor() && std::ranges::count(d.tensor().shape(), size) > 0; };
    Node* from = size > 0 && draw_.percent(70) ? pick(has_extent) : nullptr;
    Node* shape = from ? apply("Shape", {from}) : nullptr;
    if (!shape) {
      parts.push_back(integers(std::span(&size, 1)));
      continue;
    }
    const Shape& extents = tensor(from).shape();
    int64_t axis = std::ranges::find(extents, size) - extents.begin();
    Node* part = apply("Gather", {shape, integers(std::span(&axis, 1))}, {{"axis", int64_t{0}}});
    if (!part) return nullptr;
    parts.push_back(part);
  }
  return parts.size() == 1 ? parts[0] : apply("Concat", parts, {{"axis", int64_t{0}}});
}

// What somebody takes for sizes stays small in each run: inputs that it is computed from are bounded. Without that, a window
// of an input's size has 2^30 elements where the input has a large one.
void Grower::keep_small(Node* sizes) {
  boost::unordered_flat_set<const Node*> seen = {sizes};
  std::vector<Node*> pending = {sizes};
  while (!pending.empty()) {
    Node* node = pending.back();
    pending.pop_back();
    const Parameter* parameter = node->as_parameter();
    if (parameter && parameter->graph() == module_->main() && parameter->type()->is_tensor() &&
        !is_sub_byte(parameter->type()->dtype())) {
      bounds_.try_emplace(parameter->index(), Bounds{0, kLargestSize});
    }
    if (!node->is_apply()) continue;
    for (const Use& use : node->as_apply()->operands()) {
      if (seen.insert(use.node).second) pending.push_back(use.node);
    }
  }
}

// Another value as it is wanted: cast, reshaped, stretched, or cut to size.
Node* Grower::adapted(const Want& want) {
  DType dtype = dtype_for(want);
  Node* from = pick([&](const Datum& d) {
    if (!d.is_tensor()) return false;
    const Tensor& t = d.tensor();
    bool convertible = t.dtype() == dtype || (t.dtype() != DType::String && dtype != DType::String &&
                                              !is_complex(t.dtype()) && !is_complex(dtype));
    bool same_count = t.size() == element_count(want.shape), stretches = broadcasts_to(t.shape(), want.shape);
    bool cuts = t.shape().size() == want.shape.size() &&
                std::ranges::equal(t.shape(), want.shape, [](int64_t a, int64_t b) { return a >= b; });
    return convertible && (same_count || stretches || cuts);
  });
  if (!from) return nullptr;
  if (tensor(from).dtype() != dtype) from = apply("Cast", {from}, {{"to", static_cast<int64_t>(dtype)}});
  if (!from) return nullptr;
  Shape shape = tensor(from).shape();
  if (shape == want.shape) return from;
  Want extents{.dtype = DType::I64,
               .shape = {static_cast<int64_t>(want.shape.size())},
               .values = std::vector<int64_t>(want.shape.begin(), want.shape.end())};
  Node* list = operand(extents, 1);
  if (!list) return nullptr;
  if (broadcasts_to(shape, want.shape)) return apply("Expand", {from, list});
  if (tensor(from).size() == element_count(want.shape)) {
    bool empty = std::ranges::count(want.shape, 0) > 0;
    return apply("Reshape", {from, list}, empty ? AttributeSet{{"allowzero", int64_t{1}}} : AttributeSet());
  }
  std::vector<int64_t> zeros(want.shape.size(), 0);
  return apply("Slice", {from, integers(zeros), list});
}

Node* Grower::operand(const Want& want, int depth) {
  if (want.absent) return none();
  if (want.values && !has(want)) return sizes(want);
  std::vector<Node*> found;
  for (Node* node : scope_) {
    if (fits(sample(node), want)) found.push_back(node);
  }
  if (!found.empty() && draw_.percent(90)) {
    Node* known = found[late_index(found.size())];
    if (want.values) keep_small(known);
    return known;
  }
  if (want.values) return sizes(want);
  if (!want.bounds && depth < 2 && draw_.percent(50)) {
    if (Node* made = adapted(want)) return made;
  }
  return leaf(want, 50);
}

Node* Grower::variable(const Want& want) {
  Node* known = draw_.percent(75) ? pick([&](const Datum& d) { return fits(d, want); }) : nullptr;
  if (known) return known;
  Node* made = want.bounds ? nullptr : adapted(want);
  return made ? made : leaf(want, 100);
}

bool Grower::is_acceptable(const Operator& op, const std::vector<Datum>& operands, const std::vector<Datum>& results) {
  bool was_finite = true, was_large = false;
  for (const Datum& d : operands) {
    if (!d.is_tensor()) continue;
    Magnitude m = magnitude_of(d.tensor());
    was_finite = was_finite && m.all_finite;
    was_large = was_large || m.largest > kLarge;
  }
  bool converts = op.qualified == "Cast" || op.qualified == "CastLike";
  for (const Datum& d : results) {
    if (!d.is_tensor()) continue;
    const Tensor& t = d.tensor();
    if (t.size() > kMostElements || !takes(t.dtype())) return false;
    if (converts && !has_integers_for(operands[0].tensor(), t.dtype())) return false;
    Magnitude m = magnitude_of(t);
    bool narrow = t.dtype() == DType::F16 || t.dtype() == DType::BF16;
    if (was_finite && !m.all_finite && draw_.percent(95)) return false;
    if (!was_large && m.largest > (narrow ? kLargeHalf : kLarge) && draw_.percent(95)) return false;
  }
  return true;
}

void Grower::check_type(const Apply& node, const Datum& value) {
  if (!value.is_tensor() || !node.type() || !node.type()->is_tensor() || !complaint_.empty()) return;
  const Tensor& t = value.tensor();
  const Type* type = node.type();
  bool agrees = type->dtype() == DType::Undefined || type->dtype() == t.dtype();
  if (type->has_rank()) {
    agrees = agrees && type->rank() == t.rank();
    for (int axis = 0; agrees && axis < t.rank(); ++axis) {
      auto extent = type->dim(axis).as_constant();
      agrees = !extent || *extent == t.dim(axis);
    }
  }
  if (!agrees)
    complaint_ = fmt::format("{} is {}{} and not {}", describe(node), name(t.dtype()),
                             fmt::format("[{}]", to_string(t.shape())), to_string(type));
}

Node* Grower::apply(const Operator& op, const std::vector<Node*>& operands, const AttributeSet& attributes,
                    size_t outputs) {
  std::vector<Datum> values;
  for (Node* node : operands) {
    if (!node) return nullptr;
    values.push_back(node == module_->none() ? Datum() : sample(node));
  }
  Apply* made = module_->apply(graph_, op, std::span<Node* const>(operands), attributes, outputs);
  std::vector<Datum> results;
  try {
    inference_.infer(*made);
    results = analysis::evaluate_operator(op, attributes, values, outputs);
  } catch (const Error& error) {
    module_->erase(made);
    if (error.code() == ErrorCode::Internal && complaint_.empty()) complaint_ = error.what();
    return nullptr;
  }
  if (!is_acceptable(op, values, results)) {
    module_->erase(made);
    return nullptr;
  }
  ++size_;
  Datum value = outputs == 1 ? std::move(results[0]) : Datum::tuple(std::move(results));
  check_type(*made, value);
  samples_[made] = std::move(value);
  return made;
}

void Grower::keep_results(Node* node) {
  const Datum value = sample(node);  // a copy: samples move when others are added
  if (node->type() && node->type()->kind() == TypeKind::Optional) {
    for (const char* reader : {"OptionalGetElement", "OptionalHasElement"}) {
      if (Node* read = apply(reader, {node})) keep(read);
    }
    return;
  }
  if (value.kind() != Datum::Kind::Tuple) return keep(node);
  for (size_t i = 0; i < value.items().size(); ++i) {
    if (value.items()[i].is_none()) continue;
    Node* item = module_->tuple_item(graph_, node, i);
    if (Apply* apply = item->as_apply(); apply && !apply->type()) inference_.infer(*apply);
    samples_[item] = value.items()[i];
    keep(item);
  }
}

Node* Grower::condition() {
  Node* known =
      pick([](const Datum& d) { return d.is_tensor() && d.tensor().dtype() == DType::Bool && d.tensor().rank() == 0; });
  if (known && draw_.percent(50)) return known;
  if (draw_.percent(10)) return scalar(DType::Bool, static_cast<double>(draw_.below(2)));
  Node* number = pick([](const Datum& d) {
    DType dtype = d.is_tensor() ? d.tensor().dtype() : DType::Undefined;
    return (dtype == DType::F32 || dtype == DType::I64 || dtype == DType::F64) && d.tensor().size() > 0;
  });
  if (!number) return scalar(DType::Bool, 1);
  static constexpr int64_t kFlat[] = {-1};
  DType dtype = tensor(number).dtype();
  Node* flat = apply("Reshape", {number, integers(kFlat)});
  Node* first = apply("Gather", {flat, scalar(DType::I64, 0)}, {{"axis", int64_t{0}}});
  return apply("Less", {first, scalar(dtype, draw_.percent(50) ? 0 : 1)});
}

}  // namespace anfora::fuzz
