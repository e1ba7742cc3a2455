// Leaves: what a value consists of, tuples taken apart. Those that are tensors of floats, or sequences of them, have sensitivities of the same type (differentiate.cc).
#pragma once

#include <algorithm>
#include <vector>

#include "ir/type.h"

namespace anfora::passes {

inline void add_leaves(const ir::Type* type, std::vector<const ir::Type*>& leaves) {
  if (!type || !type->is_tuple()) return leaves.push_back(type);
  for (const ir::Type* element : type->elements()) add_leaves(element, leaves);
}
inline std::vector<const ir::Type*> leaf_types(const ir::Type* type) {
  std::vector<const ir::Type*> leaves;
  add_leaves(type, leaves);
  return leaves;
}

inline bool is_token(const ir::Type* type) { return type && type->kind() == ir::TypeKind::State; }
inline bool is_float_tensor(const ir::Type* type) {
  if (!type || !type->is_tensor()) return false;
  const DType dtype = type->dtype();
  return dtype == DType::F64 || dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16;
}
inline bool has_sensitivity(const ir::Type* leaf) {
  while (leaf && leaf->kind() == ir::TypeKind::Sequence) leaf = leaf->element();
  return is_float_tensor(leaf);
}
// Also where it has no sensitivity, and what reads it is refused.
inline bool holds_floats(const ir::Type* type) {
  return std::ranges::any_of(leaf_types(type), [](const ir::Type* leaf) {
    while (leaf && (leaf->kind() == ir::TypeKind::Sequence || leaf->kind() == ir::TypeKind::Optional)) leaf = leaf->element();
    return is_float_tensor(leaf);
  });
}

// The first leaf of item i of a tuple.
inline size_t offset_of(const ir::Type* tuple, size_t i) {
  size_t offset = 0;
  for (size_t k = 0; k < i; ++k) offset += leaf_types(tuple->element(k)).size();
  return offset;
}

}  // namespace anfora::passes
