#include "ops/scalar_forms.h"

#include <fmt/format.h>

#include "anfora/error.h"
#include "ir/queries.h"

namespace anfora::ops {
namespace {

std::string text_of(const AttributeValue& value) {
  if (const auto* number = std::get_if<float>(&value)) return fmt::format("({})", *number);
  if (const auto* number = std::get_if<int64_t>(&value)) return fmt::format("({})", *number);
  if (const auto* text = std::get_if<std::string>(&value)) return fmt::format("'{}'", *text);
  throw Error(ErrorCode::Internal, "an attribute that no scalar form may name");
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
  for (size_t i = 0; i < node.num_inputs(); ++i) {
    const DType expected = (form->bools >> i & 1) != 0 ? DType::Bool : DType::F32;
    if (is_scalar_operand(*form, i) && node.has_input(i) && !is_tensor_of(*node.input(i), expected)) return nullptr;
  }
  return is_tensor_of(node, form->is_predicate ? DType::Bool : DType::F32) ? form : nullptr;
}

std::string scalar_statement(const ir::Apply& node, const ScalarForm& form, std::span<const std::string> operands) {
  return kernels::generated::substituted(form.expression, [&](std::string_view name) -> std::string {
    for (size_t i = 0; i < node.op().inputs.size(); ++i) {
      if (node.op().inputs[i].name == name) return node.has_input(i) ? operands[i] : "none";
    }
    if (name == "data_1" && operands.size() == 2) return operands[1];  // of a variadic
    const AttributeValue* value = attribute_or_default(node, name);
    return value ? text_of(*value) : std::string();
  });
}

}  // namespace anfora::ops
