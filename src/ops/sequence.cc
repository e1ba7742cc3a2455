// Sequences and optionals.
#include <fmt/format.h>

#include <algorithm>

#include "ir/parse.h"
#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

using ir::TypeKind;

// The element type of input i, a sequence; unknown when the input's type is.
const Type* element_type(InferenceContext& ctx, size_t i) {
  const Type* type = ctx.input(i);
  if (type->kind() == TypeKind::Optional) type = type->element();
  if (type->kind() == TypeKind::Sequence) return type->element();
  if (!type->is_tensor() || type->dtype() != DType::Undefined) {
    ctx.fail(fmt::format("input {} is {} instead of a sequence", i, to_string(type)));
  }
  return ctx.context().unranked_type(DType::Undefined);
}

void set_sequence(InferenceContext& ctx, const Type* element) {
  ctx.set_output(0, ctx.context().sequence_type(element));
}

void infer_construct(InferenceContext& ctx) {
  const Type* element = ctx.input(0);
  for (size_t i = 1; i < ctx.num_inputs(); ++i) element = join_types(ctx, element, ctx.input(i));
  set_sequence(ctx, element);
}

void infer_empty(InferenceContext& ctx) {
  set_sequence(ctx, ctx.context().unranked_type(dtype_attribute(ctx, "dtype", DType::F32)));
}

void infer_at(InferenceContext& ctx) {
  require_scalar(ctx, 1);
  ctx.set_output(0, element_type(ctx, 0));
}
void infer_insert(InferenceContext& ctx) {
  require_scalar(ctx, 2);
  set_sequence(ctx, join_types(ctx, element_type(ctx, 0), ctx.input(1)));
}
void infer_erase(InferenceContext& ctx) {
  require_scalar(ctx, 1);
  set_sequence(ctx, element_type(ctx, 0));
}
void infer_length(InferenceContext& ctx) { ctx.set_tensor(0, DType::I64, {}); }

void infer_concat_from_sequence(InferenceContext& ctx) {
  const Type* element = element_type(ctx, 0);
  if (!element->is_tensor()) ctx.fail(fmt::format("{} cannot be concatenated", to_string(element)));
  if (!element->has_rank()) return ctx.set_unranked(0, element->dtype());
  Dims dims(element->dims().begin(), element->dims().end());
  if (ctx.attribute_int("new_axis") != 0) dims.push_back(ctx.unknown());  // placed below
  const int rank = static_cast<int>(dims.size()), axis = ctx.normalize_axis(ctx.attribute_int("axis"), rank);
  if (ctx.attribute_int("new_axis") != 0) dims.insert(dims.begin() + axis, dims.back()), dims.pop_back();
  dims[axis] = ctx.unknown();
  ctx.set_tensor(0, element->dtype(), dims);
}

void infer_split_to_sequence(InferenceContext& ctx) {
  auto dims = ctx.dims(0);
  if (!dims) return set_sequence(ctx, ctx.context().unranked_type(ctx.dtype(0)));
  const int axis = ctx.normalize_axis(ctx.attribute_int("axis"), static_cast<int>(dims->size()));
  auto size = (*dims)[axis].as_constant();
  Dim part = ctx.unknown();
  if (!ctx.has_input(1)) {
    part = ctx.dim(1);
    if (ctx.attribute_int("keepdims") == 0) dims->erase(dims->begin() + axis);
  } else if (auto given = ctx.constant_integers(1); given && !given->empty()) {
    bool equal = std::ranges::all_of(*given, [&](int64_t other) { return other == (*given)[0]; });
    if (equal && (*given)[0] > 0 && size && *size % (*given)[0] == 0) part = ctx.dim((*given)[0]);
  }
  if (ctx.has_input(1) || ctx.attribute_int("keepdims") != 0) (*dims)[axis] = part;
  set_sequence(ctx, ctx.context().tensor_type(ctx.dtype(0), std::span<const Dim>(dims->data(), dims->size())));
}

void infer_optional(InferenceContext& ctx) {
  const Type* element = ctx.context().unranked_type(DType::Undefined);
  if (ctx.has_input(0)) {
    element = ctx.input(0);
    if (element->kind() == TypeKind::Optional) ctx.fail(fmt::format("the input is an optional already, of type {}", to_string(element)));
  } else if (std::string type = ctx.attributes().get_string("type", ""); !type.empty()) {
    element = ir::parse_type(ctx.context(), type);
  }
  ctx.set_output(0, ctx.context().optional_type(element));
}

// A type tells, unless it is that of an optional, or not known.
void infer_has_element(InferenceContext& ctx) {
  ctx.set_tensor(0, DType::Bool, {});
  const Type* type = ctx.input(0);
  const bool is_unknown = type->is_tensor() && type->dtype() == DType::Undefined;
  if (type->kind() != TypeKind::Optional && !is_unknown) ctx.set_elements(0, Dims{ctx.dim(!type->is_none())});
}

void infer_get_element(InferenceContext& ctx) {
  const Type* type = ctx.input(0);
  ctx.set_output(0, type->kind() == TypeKind::Optional ? type->element() : type);
}

}  // namespace

void declare_sequence(Declarations& declare) {
  const std::vector<DType> index_types = {DType::I32, DType::I64};
  declare.op("SequenceConstruct", 11)
      .doc("The sequence of the inputs.")
      .variadic_input("inputs", "T")
      .output("output_sequence", "S")
      .type("T", kPlainDTypes)
      .type("S", kAnyType)
      .infer(infer_construct);
  declare.op("SequenceEmpty", 11)
      .doc("An empty sequence of tensors of a dtype.")
      .output("output", "S")
      .type("S", kAnyType)
      .optional_attribute("dtype", AttributeKind::Int)
      .infer(infer_empty);
  declare.op("SequenceAt", 11)
      .doc("The item at a position; negative ones count from the end.")
      .input("input_sequence", "S")
      .input("position", "I")
      .output("tensor", "T")
      .type("S", kAnyType)
      .type("I", index_types)
      .type("T", kAnyType)
      .infer(infer_at);
  declare.op("SequenceInsert", 11)
      .doc("The sequence with an item more, at the position or at the end.")
      .input("input_sequence", "S")
      .input("tensor", "T")
      .optional_input("position", "I")
      .output("output_sequence", "S")
      .type("S", kAnyType)
      .type("T", kAnyType)
      .type("I", index_types)
      .infer(infer_insert);
  declare.op("SequenceErase", 11)
      .doc("The sequence without the item at the position, or without its last.")
      .input("input_sequence", "S")
      .optional_input("position", "I")
      .output("output_sequence", "S")
      .type("S", kAnyType)
      .type("I", index_types)
      .infer(infer_erase);
  declare.op("SequenceReplace", 1, "anfora")
      .doc("The sequence with another item at the position; negative ones count from the end.")
      .input("input_sequence", "S")
      .input("tensor", "T")
      .input("position", "i64")
      .output("output_sequence", "S")
      .type("S", kAnyType)
      .type("T", kAnyType)
      .infer(infer_insert);
  declare.op("SequenceLength", 11)
      .doc("The number of items.")
      .input("input_sequence", "S")
      .output("length", "i64")
      .type("S", kAnyType)
      .infer(infer_length);
  declare.op("ConcatFromSequence", 11)
      .doc("The items one after the other along an axis, or stacked along a new one.")
      .input("input_sequence", "S")
      .output("concat_result", "T")
      .type("S", kAnyType)
      .type("T", kAnyType)
      .required_attribute("axis", AttributeKind::Int)
      .attribute("new_axis", 0)
      .infer(infer_concat_from_sequence);
  declare.op("SplitToSequence", 24)
      .doc("The parts of a tensor along an axis, as a sequence.")
      .input("input", "T")
      .optional_input("split", "I")
      .output("output_sequence", "S")
      .type("T", kPlainDTypes)
      .type("I", index_types)
      .type("S", kAnyType)
      .attribute("axis", 0)
      .attribute("keepdims", 1)
      .infer(infer_split_to_sequence);
  declare.op("Optional", 28)
      .doc("The input as an optional, or an absent one.")
      .optional_input("input", "V")
      .output("output", "O")
      .type("V", kAnyType)
      .type("O", kAnyType)
      .optional_attribute("type", AttributeKind::Type)
      .infer(infer_optional);
  declare.op("OptionalHasElement", 28)
      .doc("Whether the optional is present.")
      .optional_input("input", "O")
      .output("output", "bool")
      .type("O", kAnyType)
      .infer(infer_has_element);
  declare.op("OptionalGetElement", 28)
      .doc("The element of a present optional.")
      .input("input", "O")
      .output("output", "V")
      .type("O", kAnyType)
      .type("V", kAnyType)
      .infer(infer_get_element);
}

}  // namespace anfora::ops
