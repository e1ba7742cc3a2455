#include <fmt/format.h>

#include <algorithm>

#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

void set_same_shape(InferenceContext& ctx, DType dtype) {
  if (auto dims = ctx.dims(0)) {
    ctx.set_tensor(0, dtype, {dims->data(), dims->size()});
  } else {
    ctx.set_unranked(0, dtype);
  }
}

DType target_dtype(const InferenceContext& ctx) { return dtype_attribute(ctx, "to", DType::Undefined); }

// Between i64 and i32 sizes stay themselves (a size that does not fit cannot be a shape either); to bool they are
// compared with zero.
void infer_conversion(InferenceContext& ctx, DType to) {
  set_same_shape(ctx, to);
  auto elements = ctx.elements(0);
  if (!elements) return;
  if (to == DType::Bool) {
    for (Dim& x : *elements) {
      if (provably_different(x, ctx.dim(0)))
        x = ctx.dim(1);
      else if (x.as_constant() != 0)
        x = ctx.unknown();
    }
  } else if (to != DType::I64 && to != DType::I32) {
    return;
  }
  ctx.set_elements(0, *elements);
}

void infer_cast(InferenceContext& ctx) { infer_conversion(ctx, target_dtype(ctx)); }
void infer_cast_like(InferenceContext& ctx) { infer_conversion(ctx, ctx.dtype(1)); }

// The element type of a type as a value; Undefined where it is not known.
DType element_type_of(const InferenceContext& ctx, size_t i) {
  const Type* type = ctx.input(i);
  if (type->kind() == ir::TypeKind::Type) {
    if (!type->element()->is_tensor()) ctx.fail(fmt::format("{} is no type of a tensor", to_string(type->element())));
    return type->element()->dtype();
  }
  const bool is_unknown = type->is_tensor() && type->dtype() == DType::Undefined && !type->has_rank();
  if (!is_unknown) ctx.fail(fmt::format("input {} is to be a type, it is a value of type {}", i, to_string(type)));
  return DType::Undefined;
}

// Without the shape: sizes are values of their own, which Shape gives.
void infer_type_of(InferenceContext& ctx) {
  ctx.set_output(0, ctx.context().type_type(ctx.context().unranked_type(ctx.dtype(0))));
}
void infer_cast_to(InferenceContext& ctx) { infer_conversion(ctx, element_type_of(ctx, 1)); }

void infer_bit_cast(InferenceContext& ctx) {
  const DType from = ctx.dtype(0), to = target_dtype(ctx);
  if (from != DType::Undefined && element_bits(from) != element_bits(to)) {
    ctx.fail(fmt::format("{} and {} have different widths", name(from), name(to)));
  }
  set_same_shape(ctx, to);
}

std::vector<DType> without(std::vector<DType> from, const std::vector<DType>& removed) {
  std::erase_if(from, [&](DType d) { return std::ranges::count(removed, d) > 0; });
  return from;
}

}  // namespace

void declare_cast(Declarations& declare) {
  const std::vector<DType> convertible = without(kAllDTypes, kComplexes);
  declare.op("Cast", 28)
      .doc("The elements converted to the type `to`.")
      .input("input", "T1")
      .output("output", "T2")
      .type("T1", convertible)
      .type("T2", convertible)
      .required_attribute("to", AttributeKind::Int)
      .attribute("saturate", 1)
      .attribute("round_mode", "up")
      .infer(infer_cast)
      .flops(flops_per_element<1>)
      .fusion(FusionKind::Elementwise)
      .in_place()
      .widens(false).range(range_of_cast).whole(Whole::OfWhole).piecewise(PiecewiseOp::Cast);
  declare.op("CastLike", 25)
      .doc("The elements converted to the type of the second input.")
      .input("input", "T1")
      .input("target_type", "T2")
      .output("output", "T2")
      .type("T1", convertible)
      .type("T2", convertible)
      .attribute("saturate", 1)
      .attribute("round_mode", "up")
      .infer(infer_cast_like)
      .flops(flops_per_element<1>)
      .in_place();
  declare.op("CastTo", 1, "anfora")
      .doc("The elements converted to a type that is a value. In place of it stands Cast where the type is known.")
      .input("input", "T1")
      .input("type", "T")
      .output("output", "T2")
      .type("T1", convertible)
      .type("T2", convertible)
      .type("T", kAnyType)
      .infer(infer_cast_to)
      .flops(flops_per_element<1>);
  declare.op("TypeOf", 1, "anfora")
      .doc("The type of the elements, as a value.")
      .input("input", "T1")
      .output("type", "T")
      .type("T1", kAllDTypes)
      .type("T", kAnyType)
      .infer(infer_type_of);
  const std::vector<DType> fixed_size = without(kAllDTypes, {DType::String});
  declare.op("BitCast", 26)
      .doc("The same bits as elements of another type of the same width.")
      .input("input", "T1")
      .output("output", "T2")
      .type("T1", fixed_size)
      .type("T2", fixed_size)
      .required_attribute("to", AttributeKind::Int)
      .infer(infer_bit_cast)
      .fusion(FusionKind::View)
      .fails(Fails::Never)
      .in_place();
  declare.op("Identity", 25)
      .doc("Its input, of any type.")
      .input("input", "V")
      .output("output", "V")
      .type("V", kAnyType)
      .infer(infer_same)
      .fusion(FusionKind::View)
      .in_place();
}

}  // namespace anfora::ops
