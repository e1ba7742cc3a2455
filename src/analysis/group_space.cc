#include "analysis/group_space.h"

#include <algorithm>

#include "ir/module.h"
#include "ir/queries.h"
#include "kernels/generated/group_code.h"
#include "ops/inference.h"

namespace anfora::analysis {

using namespace ir;

namespace {

bool is_generated_type(const Type* type) {
  return type && type->is_tensor() && kernels::generated::is_group_dtype(type->dtype()) && type->has_rank();
}

// Whether the functions of a row are along the last axis here.
bool is_along_last(const Apply& node, const ops::ScalarForm& form) {
  const int64_t rank = rank_of(node.input(0));
  if (rank < 1) return false;
  if (form.along == ops::Along::Axis) return axis_of(node, static_cast<int>(rank)) == rank - 1;
  const auto axes = constant_integers(node, 1);
  return axes && axes->size() == 1 && ((*axes)[0] == rank - 1 || (*axes)[0] == -1);
}

// Whether the application is of integers that shapes may be made of: inference follows the elements of such vectors, and would not in a group.
bool may_be_of_shapes(const Apply& node) {
  const Type* result = node.type();
  if (result->rank() > 1 || (result->rank() == 1 && result->dim(0).as_constant().value_or(INT64_MAX) > int64_t{ops::kMostTrackedElements}))
    return false;
  auto is_integer = [](const Type* type) {
    return type && type->is_tensor() && (type->dtype() == DType::I32 || type->dtype() == DType::I64);
  };
  return is_integer(result) || std::ranges::any_of(node.operands(), [&](const Use& use) { return is_integer(use.node->type()); });
}

// Whether a is b but for a last axis of 1.
bool is_of_rows(const Type* a, const Type* b) {
  if (a->rank() != b->rank() || a->rank() == 0 || a->dims().back().as_constant() != 1) return false;
  const size_t last = static_cast<size_t>(a->rank()) - 1;
  return std::ranges::equal(a->dims().first(last), b->dims().first(last),
                            [](Dim x, Dim y) { return provably_equal(x, y); });
}

}  // namespace

bool fits(const Type* operand, const Type* space) {
  if (!is_generated_type(operand) || operand->rank() > space->rank()) return false;
  for (int i = 1; i <= operand->rank(); ++i) {
    const Dim of = operand->dim(operand->rank() - i), to = space->dim(space->rank() - i);
    if (of.as_constant() != 1 && !provably_equal(of, to)) return false;
  }
  return true;
}

bool is_same_shape(const Type* a, const Type* b) {
  if (a == b) return true;
  return a->has_rank() && b->has_rank() &&
         std::ranges::equal(a->dims(), b->dims(), [](Dim x, Dim y) { return provably_equal(x, y); });
}

std::optional<GroupSpace> GroupSpace::joined(const GroupSpace& a, const GroupSpace& b) {
  if (is_same_shape(a.type, b.type)) return GroupSpace{a.type, a.reduces || b.reduces};
  if (!a.reduces && is_of_rows(a.type, b.type)) return b;
  if (!b.reduces && is_of_rows(b.type, a.type)) return a;
  return std::nullopt;
}

std::optional<GroupSpace> group_space(const Apply& node) {
  if (node.primitive() != Primitive::Operation || node.num_inputs() == 0) return std::nullopt;
  const ops::ScalarForm* form = ops::scalar_form(node);
  if (!form || !is_generated_type(node.type()) || may_be_of_shapes(node)) return std::nullopt;
  const bool reduces = form->along != ops::Along::Elements;
  if (reduces && !is_along_last(node, *form)) return std::nullopt;
  const Type* type = reduces ? node.input(0)->type() : node.type();
  if (!is_generated_type(type) || type->rank() == 0) return std::nullopt;
  for (size_t i = 0; i < node.num_inputs(); ++i) {
    if (ops::is_scalar_operand(*form, i) && node.has_input(i) && !fits(node.input(i)->type(), type))
      return std::nullopt;
  }
  return GroupSpace{type, reduces};
}

Graph* function_of_group(const Apply& node) { return node.is("Group") ? constant_function(node.input(0)) : nullptr; }

}  // namespace anfora::analysis
