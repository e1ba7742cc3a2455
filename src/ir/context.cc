#include "ir/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <map>
#include <unordered_set>

#include "anfora/error.h"
#include "support/arena.h"
#include "support/hash.h"

namespace anfora::ir {

struct Context::Impl {
  Arena arena;
  boost::unordered_flat_map<uint64_t, boost::container::small_vector<const Type*, 2>> types;
  struct AttributeHash {
    size_t operator()(const AttributeSet& set) const { return set.hash(); }
  };
  std::unordered_set<AttributeSet, AttributeHash> attribute_sets;
  boost::unordered_flat_map<std::string_view, std::string_view> strings;
  std::map<std::string, Operator, std::less<>> unknown_operators;  // by their qualified names
};

namespace {

const OperatorTable& primitives() {
  static const OperatorTable table;
  return table;
}

}  // namespace

Context::Context() : Context(primitives()) {}
Context::Context(const OperatorTable& operators) : operators_(operators), impl_(std::make_unique<Impl>()) {}
Context::~Context() = default;

const Type* Context::intern(const Type& probe) {
  uint64_t h =
      hash_combine(static_cast<uint64_t>(probe.kind_), static_cast<uint64_t>(probe.dtype_) * 2 + probe.ranked_);
  for (Dim d : probe.dims_) h = hash_combine(h, hash_pointer(d.expr()));
  for (const Type* t : probe.elements_) h = hash_combine(h, hash_pointer(t));
  h = hash_combine(h, hash_pointer(probe.reason_.data()));  // interned, too
  auto& bucket = impl_->types[h];
  for (const Type* t : bucket) {
    if (t->kind_ == probe.kind_ && t->dtype_ == probe.dtype_ && t->ranked_ == probe.ranked_ &&
        std::ranges::equal(t->dims_, probe.dims_) && std::ranges::equal(t->elements_, probe.elements_) &&
        t->reason_.data() == probe.reason_.data()) {
      return t;
    }
  }
  Type* type = impl_->arena.make<Type>(probe);
  type->dims_ = impl_->arena.copy(probe.dims_);
  type->elements_ = impl_->arena.copy(probe.elements_);
  type->holds_functions_ =
      type->is_func() || (type->kind_ != TypeKind::Type &&
                          std::ranges::any_of(type->elements_, [](const Type* t) { return t && t->holds_functions(); }));
  bucket.push_back(type);
  return type;
}

const Type* Context::none_type() { return intern(Type()); }
const Type* Context::state_type() {
  Type probe;
  probe.kind_ = TypeKind::State;
  return intern(probe);
}
const Type* Context::unreachable_type(std::string_view reason) {
  Type probe;
  probe.kind_ = TypeKind::Unreachable;
  if (!reason.empty()) probe.reason_ = string(reason);
  return intern(probe);
}
const Type* Context::tensor_type(DType dtype, std::span<const Dim> dims) {
  Type probe;
  probe.kind_ = TypeKind::Tensor;
  probe.dtype_ = dtype;
  probe.ranked_ = true;
  probe.dims_ = dims;
  return intern(probe);
}
const Type* Context::tensor_type(DType dtype, std::span<const int64_t> shape) {
  boost::container::small_vector<Dim, 6> dims;
  for (int64_t d : shape) dims.push_back(dims_.constant(d));
  return tensor_type(dtype, std::span<const Dim>(dims.data(), dims.size()));
}
const Type* Context::unranked_type(DType dtype) {
  Type probe;
  probe.kind_ = TypeKind::Tensor;
  probe.dtype_ = dtype;
  return intern(probe);
}
const Type* Context::tuple_type(std::span<const Type* const> items) {
  Type probe;
  probe.kind_ = TypeKind::Tuple;
  probe.elements_ = items;
  return intern(probe);
}
const Type* Context::sequence_type(const Type* element) {
  Type probe;
  probe.kind_ = TypeKind::Sequence;
  probe.elements_ = {&element, 1};
  return intern(probe);
}
const Type* Context::optional_type(const Type* element) {
  Type probe;
  probe.kind_ = TypeKind::Optional;
  probe.elements_ = {&element, 1};
  return intern(probe);
}
const Type* Context::map_type(const Type* key, const Type* value) {
  const Type* both[] = {key, value};
  Type probe;
  probe.kind_ = TypeKind::Map;
  probe.elements_ = both;
  return intern(probe);
}
const Type* Context::type_type(const Type* type) {
  Type probe;
  probe.kind_ = TypeKind::Type;
  probe.elements_ = {&type, 1};
  return intern(probe);
}
const Type* Context::func_type(std::span<const Type* const> parameters, const Type* result) {
  boost::container::small_vector<const Type*, 8> all(parameters.begin(), parameters.end());
  all.push_back(result);
  Type probe;
  probe.kind_ = TypeKind::Func;
  probe.elements_ = {all.data(), all.size()};
  return intern(probe);
}

const AttributeSet* Context::attributes(AttributeSet set) {
  return &*impl_->attribute_sets.insert(std::move(set)).first;
}

std::string_view Context::string(std::string_view text) {
  if (auto found = impl_->strings.find(text); found != impl_->strings.end()) return found->second;
  std::string_view copy = impl_->arena.copy(text);
  impl_->strings.emplace(copy, copy);
  return copy;
}

const Operator* Context::find_operator(std::string_view qualified) const {
  if (const Operator* op = operators_.find(qualified)) return op;
  auto unknown = impl_->unknown_operators.find(qualified);
  return unknown == impl_->unknown_operators.end() ? nullptr : &unknown->second;
}
const Operator* Context::find_operator(std::string_view domain, std::string_view name) const {
  return find_operator(domain.empty() ? std::string(name) : qualified_name(domain, name));
}
const Operator& Context::get_operator(std::string_view qualified) const {
  const Operator* op = find_operator(qualified);
  if (!op) throw Error(ErrorCode::NotFound, fmt::format("there is no operator {}", qualified));
  return *op;
}
const Operator* Context::operator_or_unknown(std::string_view domain, std::string_view name) {
  if (const Operator* op = find_operator(domain, name)) return op;
  Operator op;
  op.domain = domain == "ai.onnx" ? "" : std::string(domain);
  op.name = name;
  op.qualified = qualified_name(op.domain, op.name);
  op.known = false;
  std::string key = op.qualified;
  return &impl_->unknown_operators.emplace(std::move(key), std::move(op)).first->second;
}

}  // namespace anfora::ir
