#include "rewrite/admission.h"

#include <fmt/format.h>

#include <algorithm>

#include "anfora/error.h"

namespace anfora::rewrite {

using namespace ir;

std::string why_not_taken(const Operator& op, size_t input, DType dtype) {
  if (op.inputs.empty() || dtype == DType::Undefined) return "";
  bool is_variadic = op.inputs.back().arity == Formal::Arity::Variadic;
  if (input >= op.inputs.size() && !is_variadic) return "";
  const Formal& formal = op.inputs[std::min(input, op.inputs.size() - 1)];
  auto variable = std::ranges::find(op.variables, formal.type, &TypeVariable::name);
  if (variable == op.variables.end() || variable->dtypes.empty()) return "";
  if (std::ranges::find(variable->dtypes, dtype) != variable->dtypes.end()) return "";
  return fmt::format("{} takes no {}", op.name, anfora::name(dtype));
}

std::string why_not_typed(analysis::Inference& inference, Apply& made) {
  for (size_t i = 0; i < made.num_inputs(); ++i) {
    const Type* type = made.input(i)->type();
    if (!type || !type->is_tensor()) continue;
    if (std::string why = why_not_taken(made.op(), i, type->dtype()); !why.empty()) return why;
  }
  try {
    inference.infer(made);
    return "";
  } catch (const Error& error) {
    if (error.code() == ErrorCode::Internal) throw;
    return error.message();
  }
}

std::string why_not_written(const HasOperator& has, std::span<Apply* const> made) {
  if (!has) return "";
  auto lacking = std::ranges::find_if_not(made, [&](const Apply* node) { return has(*node); });
  if (lacking == made.end()) return "";
  return fmt::format("the operator set to be written, or what runs it, has no such {}", (*lacking)->op().qualified);
}

std::string why_not_accurate(const IsAccurate& is_accurate, std::span<Apply* const> made) {
  if (!is_accurate) return "";
  auto lossy = std::ranges::find_if_not(made, [&](const Apply* node) { return is_accurate(*node); });
  if (lossy == made.end()) return "";
  return fmt::format("what runs it computes small results of {} less accurately than this", (*lossy)->op().qualified);
}

}  // namespace anfora::rewrite
