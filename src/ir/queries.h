// What passes and rules ask about a value, and its type. Null nodes, and values whose type is not known, have no answer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ir/node.h"
#include "support/integers.h"

namespace anfora::ir {

// The type of a tensor whose rank is known, else null.
inline const Type* ranked_type(const Node* node) {
  const Type* type = node ? node->type() : nullptr;
  return type && type->is_tensor() && type->has_rank() ? type : nullptr;
}

// −1 where it is not known.
inline int rank_of(const Node* node) {
  const Type* type = ranked_type(node);
  return type ? type->rank() : -1;
}

// Whether two tensors are known to have the same shape.
inline bool same_shape(const Node& x, const Node& y) {
  const Type *a = ranked_type(&x), *b = ranked_type(&y);
  return a && b && std::ranges::equal(a->dims(), b->dims(), [](Dim m, Dim n) { return provably_equal(m, n); });
}

// The size of an axis, counted from the end where it is negative; −1 where it is not known or not constant.
inline int64_t extent_of(const Node* node, int axis) {
  const int rank = rank_of(node), at = axis < 0 ? axis + rank : axis;
  if (rank < 0 || at < 0 || at >= rank) return -1;
  return node->type()->dim(at).as_constant().value_or(-1);
}

// An attribute, or the default that the operator declares; null where there is neither.
inline const AttributeValue* attribute_or_default(const Apply& node, std::string_view name) {
  if (const AttributeValue* value = node.attributes().find(name)) return value;
  const AttributeDeclaration* declared = node.op().find_attribute(name);
  return declared && declared->otherwise ? &*declared->otherwise : nullptr;
}

// The attribute `axis`, or its default, counted from the front; nothing outside of the rank.
inline std::optional<int64_t> axis_of(const Apply& node, int rank) {
  const AttributeValue* value = attribute_or_default(node, "axis");
  const int64_t* axis = value ? std::get_if<int64_t>(value) : nullptr;
  if (!axis || *axis < -rank || *axis >= rank) return std::nullopt;
  return *axis < 0 ? *axis + rank : *axis;
}

// An operand that is a constant list of integers: axes, bounds, pads.
inline std::optional<std::vector<int64_t>> constant_integers(const Apply& node, size_t input) {
  return node.has_input(input) ? integers_of(constant_tensor(node.input(input))) : std::nullopt;
}

}  // namespace anfora::ir
