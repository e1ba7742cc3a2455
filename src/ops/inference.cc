#include "ops/inference.h"

#include <fmt/format.h>

namespace anfora::ops {

template <class T>
static T declared_or_given(const InferenceContext& ctx, std::string_view name) {
  const AttributeValue* value = ctx.attributes().find(name);
  if (!value) {
    const ir::AttributeDeclaration* declared = ctx.op().find_attribute(name);
    if (!declared || !declared->otherwise) ctx.fail(fmt::format("the required attribute '{}' is missing", name));
    value = &*declared->otherwise;
  }
  const T* typed = std::get_if<T>(value);
  if (!typed) ctx.fail(fmt::format("attribute '{}' has the wrong kind of value", name));
  return *typed;
}

int64_t InferenceContext::attribute_int(std::string_view name) const { return declared_or_given<int64_t>(*this, name); }
float InferenceContext::attribute_float(std::string_view name) const { return declared_or_given<float>(*this, name); }
std::string InferenceContext::attribute_string(std::string_view name) const {
  return declared_or_given<std::string>(*this, name);
}

std::optional<int> InferenceContext::rank(size_t i) const {
  const Type* type = input(i);
  return type->is_tensor() && type->has_rank() ? std::optional(type->rank()) : std::nullopt;
}

std::optional<Dims> InferenceContext::dims(size_t i) const {
  if (!rank(i)) return std::nullopt;
  auto dims = input(i)->dims();
  return Dims(dims.begin(), dims.end());
}

std::optional<std::vector<int64_t>> InferenceContext::constant_integers(size_t i) const {
  auto known = elements(i);
  if (!known) return std::nullopt;
  std::vector<int64_t> values;
  for (Dim d : *known) {
    if (!d.is_constant()) return std::nullopt;
    values.push_back(d.constant());
  }
  return values;
}

void InferenceContext::set_tensor(size_t i, DType dtype, std::span<const Dim> dims) {
  for (Dim d : dims) {
    if (d.range().high < 0) fail(fmt::format("a dimension would be {}", to_string(d)));
  }
  set_output(i, context_.tensor_type(dtype, dims));
}

int InferenceContext::normalize_axis(int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank) fail(fmt::format("axis {} is out of range for rank {}", axis, rank));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

void InferenceContext::fail(std::string message, std::string hint) const {
  Error error(ErrorCode::TypeMismatch, std::move(message));
  if (!hint.empty()) error.with_hint(std::move(hint));
  throw error;
}

}  // namespace anfora::ops
