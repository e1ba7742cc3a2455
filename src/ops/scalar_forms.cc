#include "ops/scalar_forms.h"

#include <fmt/format.h>

#include <algorithm>

#include "anfora/error.h"
#include "ir/queries.h"
#include "kernels/generated/group_code.h"

namespace anfora::ops {
namespace {

std::string text_of(const AttributeValue& value) {
  if (const auto* number = std::get_if<float>(&value)) return fmt::format("({})", *number);
  if (const auto* number = std::get_if<int64_t>(&value)) return fmt::format("({})", *number);
  if (const auto* text = std::get_if<std::string>(&value)) return fmt::format("'{}'", *text);
  throw Error(ErrorCode::Internal, "an attribute that no scalar form may name");
}

// Whether a form takes operands of that type where it declares neither bool nor bytes.
bool is_of(kernels::generated::Over over, DType dtype) {
  using kernels::generated::Over;
  if (dtype == DType::F32) return true;
  switch (over) {
    case Over::Floats: return false;
    case Over::Numbers: return dtype == DType::I32 || dtype == DType::I64;
    case Over::Values: return dtype == DType::I32 || dtype == DType::I64 || dtype == DType::Bool;
    case Over::Each: return kernels::generated::is_group_dtype(dtype);
  }
  return false;
}

bool is_one_number(const ir::Node& node) {
  const ir::Type* type = node.type();
  return type->has_rank() && std::ranges::all_of(type->dims(), [](ir::Dim dim) { return dim.as_constant() == 1; });
}

}  // namespace

const ScalarForm* scalar_form(const ir::Apply& node) {
  const ScalarForm* form = kernels::generated::scalar_form(node.op().qualified);
  if (!form || node.num_outputs() != 1) return nullptr;
  const bool is_variadic = node.op().inputs.back().arity == ir::Formal::Arity::Variadic;
  if (is_variadic && node.num_inputs() != 2) return nullptr;
  auto is_tensor_of = [](const ir::Node& value, DType dtype) {
    return value.type() && value.type()->is_tensor() && value.type()->dtype() == dtype;
  };
  DType dtype = DType::F32;  // of the operands
  bool is_first = true;
  for (size_t i = 0; i < node.num_inputs(); ++i) {
    if (!is_scalar_operand(*form, i) || !node.has_input(i)) continue;
    const ir::Node& input = *node.input(i);
    if (!input.type() || !input.type()->is_tensor()) return nullptr;
    if ((form->bytes >> i & 1) != 0) {
      if (!is_tensor_of(input, DType::I8) && !is_tensor_of(input, DType::U8)) return nullptr;
    } else if ((form->bools >> i & 1) != 0) {
      if (!is_tensor_of(input, DType::Bool)) return nullptr;
    } else {
      if (is_first) dtype = input.type()->dtype();
      if (!is_tensor_of(input, dtype) || !is_of(form->over, dtype)) return nullptr;
      is_first = false;
    }
    // Scales of an axis are not along the last one.
    const bool has_axis = form->along == Along::Elements && node.op().find_attribute("axis");
    if (has_axis && i > 0 && !is_one_number(input)) return nullptr;
  }
  if (form->is_byte) return is_tensor_of(node, DType::I8) || is_tensor_of(node, DType::U8) ? form : nullptr;
  if (form->over == kernels::generated::Over::Each) {
    const bool is_value = node.type() && node.type()->is_tensor() && is_of(kernels::generated::Over::Values, node.type()->dtype());
    return is_value ? form : nullptr;
  }
  return is_tensor_of(node, form->is_predicate ? DType::Bool : dtype) ? form : nullptr;
}

std::string scalar_statement(const ir::Apply& node, const ScalarForm& form, std::span<const std::string> operands) {
  return kernels::generated::substituted(form.expression, [&](std::string_view name) -> std::string {
    for (size_t i = 0; i < node.op().inputs.size(); ++i) {
      if (node.op().inputs[i].name == name) return node.has_input(i) ? operands[i] : "none";
    }
    if (name == "data_1" && operands.size() == 2) return operands[1];  // of a variadic
    if (form.is_byte && (name == "lowest" || name == "highest")) {
      const bool is_signed = node.type()->dtype() == DType::I8, is_lowest = name == "lowest";
      return is_signed ? (is_lowest ? "(-128)" : "127") : (is_lowest ? "0" : "255");
    }
    if (name == "result_type") return fmt::format("'{}'", anfora::name(node.type()->dtype()));
    const AttributeValue* value = attribute_or_default(node, name);
    return value ? text_of(*value) : std::string();
  });
}

}  // namespace anfora::ops
