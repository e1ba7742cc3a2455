#include "ir/type.h"

#include <fmt/format.h>

#include "ir/lexical.h"

namespace anfora::ir {

std::optional<Shape> Type::static_shape() const {
  if (!is_tensor() || !ranked_) return std::nullopt;
  Shape shape;
  for (Dim d : dims_) {
    if (!d.is_constant()) return std::nullopt;
    shape.push_back(d.constant());
  }
  return shape;
}

static std::string join(std::span<const Type* const> types) {
  std::string text;
  for (const Type* t : types) text += (text.empty() ? "" : ", ") + to_string(t);
  return text;
}

std::string to_string(const Type* type) {
  if (!type) return "untyped";
  switch (type->kind()) {
    case TypeKind::None: return "none";
    case TypeKind::State: return "state";
    case TypeKind::Tensor: {
      std::string text(type->dtype() == DType::Undefined ? "any" : name(type->dtype()));
      if (!type->has_rank()) return text + "[*]";
      text += '[';
      for (int i = 0; i < type->rank(); ++i) text += (i ? ", " : "") + to_string(type->dim(i));
      return text + ']';
    }
    case TypeKind::Tuple: return "(" + join(type->elements()) + (type->elements().size() == 1 ? ",)" : ")");
    case TypeKind::Sequence: return "seq(" + to_string(type->element()) + ")";
    case TypeKind::Optional: return "opt(" + to_string(type->element()) + ")";
    case TypeKind::Type: return "type(" + to_string(type->element()) + ")";
    case TypeKind::Map: return "map(" + join(type->elements()) + ")";
    case TypeKind::Unreachable: {
      std::string text = "unreachable";
      if (!type->reason().empty()) append_quoted(text += ' ', type->reason());
      return text;
    }
    case TypeKind::Func: return "func(" + join(type->parameters()) + ") -> " + to_string(type->result());
  }
  return "";
}

}  // namespace anfora::ir
