// Types, interned in a Context: equal types are the same pointer.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "anfora/tensor.h"
#include "ir/dim.h"

namespace anfora::ir {

enum class TypeKind : uint8_t { None, Tensor, Tuple, Sequence, Optional, Map, Func, State, Type, Unreachable };

// None is the type of an absent optional input. Func holds its parameters' types, then its result's.
// Map holds the key (a scalar tensor type) and the value. State is the token that orders effects.
// Type is that of a type as a value, and holds it: what is inferred of such a value is the value.
// Unreachable is the type without values, of what no run computes: the result of a recursion without an exit, what only a
// branch needs that a known condition never takes, or what fails if it is computed, which then is the reason.
class Type {
 public:
  TypeKind kind() const { return kind_; }
  bool is_tensor() const { return kind_ == TypeKind::Tensor; }
  bool is_none() const { return kind_ == TypeKind::None; }
  bool is_func() const { return kind_ == TypeKind::Func; }
  bool is_tuple() const { return kind_ == TypeKind::Tuple; }
  bool is_unreachable() const { return kind_ == TypeKind::Unreachable; }
  // Whether it is a function's, or that of a structure with functions in it: a tuple, a sequence, an optional.
  bool holds_functions() const { return holds_functions_; }

  // Of a tensor type. dtype() is Undefined when it is not known yet.
  DType dtype() const { return dtype_; }
  bool has_rank() const { return ranked_; }
  int rank() const { return static_cast<int>(dims_.size()); }  // only when has_rank()
  std::span<const Dim> dims() const { return dims_; }
  Dim dim(int axis) const { return dims_[axis]; }
  // The shape when every dimension is a constant.
  std::optional<Shape> static_shape() const;
  bool is_static() const { return static_shape().has_value(); }

  // Items of a tuple, the element of a sequence or an optional, key and value of a map,
  // parameters and result of a function, the type that a type as a value is.
  std::span<const Type* const> elements() const { return elements_; }
  const Type* element(size_t i = 0) const { return elements_[i]; }
  std::span<const Type* const> parameters() const { return elements_.first(elements_.size() - 1); }
  const Type* result() const { return elements_.back(); }

  // Of an unreachable one: the error that a run would end by; empty where there is none.
  std::string_view reason() const { return reason_; }

 private:
  friend class Context;
  TypeKind kind_ = TypeKind::None;
  DType dtype_ = DType::Undefined;
  bool ranked_ = false;
  bool holds_functions_ = false;
  std::span<const Dim> dims_;
  std::span<const Type* const> elements_;
  std::string_view reason_;
};

// "f32[N, 128]", "f32[*]" (unknown rank), "any[*]" (unknown dtype), "seq(f32[?])", "opt(…)", "map(i64, f32[])",
// "(f32[2], i64[])", "func(f32[2]) -> f32[2]", "type(f32[*])", "state", "none", "unreachable", "unreachable \"Add %3: …\"".
std::string to_string(const Type* type);

// Whether a run may compute a value of this type: not when it is unreachable, or null, which is not inferred.
inline bool is_reached(const Type* type) { return type && !type->is_unreachable(); }

}  // namespace anfora::ir
