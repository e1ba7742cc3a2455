#include "frontend/onnx/declared_type.h"

#include <boost/container/small_vector.hpp>

namespace anfora::onnx {
namespace {

using DeclaredDims = boost::container::small_vector<ir::Dim, 6>;

bool is_public(ir::Dim dim) {
  bool all = true;
  for_each_symbol(dim, [&](ir::Dim symbol) { all &= !symbol.symbol_name().starts_with('_'); });
  return all;
}

}  // namespace

const ir::Type* public_type(ir::Context& context, const ir::Type* type) {
  if (!type) return nullptr;
  switch (type->kind()) {
    case ir::TypeKind::Tensor: {
      if (type->dtype() == DType::Undefined) return nullptr;
      if (!type->has_rank()) return type;
      DeclaredDims dims;
      for (ir::Dim dim : type->dims()) dims.push_back(is_public(dim) ? dim : context.dims().unknown());
      return context.tensor_type(type->dtype(), std::span<const ir::Dim>(dims.data(), dims.size()));
    }
    case ir::TypeKind::Sequence: {
      const ir::Type* element = public_type(context, type->element());
      return element ? context.sequence_type(element) : nullptr;
    }
    case ir::TypeKind::Optional: {
      const ir::Type* element = public_type(context, type->element());
      return element ? context.optional_type(element) : nullptr;
    }
    case ir::TypeKind::Map: return type;
    default: return nullptr;
  }
}

const ir::Type* refined_type(ir::Context& context, const ir::Type* declared, const ir::Type* inferred) {
  inferred = public_type(context, inferred);
  declared = public_type(context, declared);
  if (!declared || !inferred) return inferred ? inferred : declared;
  // An optional that is never absent may stand for its element, and the other way around.
  if (declared->kind() != inferred->kind()) return declared;
  switch (inferred->kind()) {
    case ir::TypeKind::Tensor: {
      if (declared->dtype() != inferred->dtype() || !declared->has_rank()) return inferred;
      if (!inferred->has_rank()) return declared;
      if (declared->rank() != inferred->rank()) return inferred;
      DeclaredDims dims;
      for (int axis = 0; axis < inferred->rank(); ++axis) {
        ir::Dim stated = declared->dim(axis), found = inferred->dim(axis);
        dims.push_back(found.is_constant() || stated.is_unknown() ? found : stated);
      }
      return context.tensor_type(inferred->dtype(), std::span<const ir::Dim>(dims.data(), dims.size()));
    }
    case ir::TypeKind::Sequence:
      return context.sequence_type(refined_type(context, declared->element(), inferred->element()));
    case ir::TypeKind::Optional:
      return context.optional_type(refined_type(context, declared->element(), inferred->element()));
    default: return inferred;
  }
}

}  // namespace anfora::onnx
