#include "plan/draft.h"

#include <numeric>

namespace anfora::plan {

bool Draft::is_view(const Step& step) const {
  return step.opcode == Opcode::Kernel && step.num_results == 1 && !step.operands.empty() &&
         step.node->op().fusion == ir::FusionKind::View && is_tensor(step.first_result);
}

std::vector<Value> Draft::viewed() const {
  std::vector<Value> result(value_types.size());
  std::iota(result.begin(), result.end(), 0);
  for (const Step& step : steps) {
    if (!is_view(step)) continue;
    const Operand operand = step.operands[0];
    result[step.first_result] = operand >= 0 ? result[static_cast<Value>(operand)] : kConstant;
  }
  return result;
}

Draft::Lifetimes Draft::lifetimes() const {
  Lifetimes result;
  result.written.assign(value_types.size(), 0);
  for (uint32_t s = 0; s < steps.size(); ++s) {
    for (uint32_t r = 0; r < steps[s].num_results; ++r) result.written[steps[s].first_result + r] = s;
  }
  result.last_read = result.written;
  for (uint32_t s = 0; s < steps.size(); ++s) {
    for (Operand operand : steps[s].operands) {
      if (operand >= 0) result.last_read[static_cast<Value>(operand)] = s;
    }
  }
  return result;
}

}  // namespace anfora::plan
