#include "plan/retention.h"

namespace anfora::plan {

RetainedArguments::RetainedArguments(std::span<const Draft> drafts) {
  for (const Draft& draft : drafts) kept_.emplace_back(draft.num_arguments, false);
  for (bool changes = true; changes;) {
    changes = false;
    for (size_t f = 0; f < drafts.size(); ++f) changes |= update(drafts[f], kept_[f]);
  }
}

bool RetainedArguments::keeps_operand(const Draft& draft, const Step& step, size_t i) const {
  switch (step.opcode) {
    case Opcode::Kernel: {
      // A kernel keeps its operands in a sequence and the like.
      for (Value v = step.first_result; v < step.first_result + step.num_results; ++v) {
        if (!draft.is_tensor(v)) return true;
      }
      return false;
    }
    case Opcode::Call: return is_kept(step.target, i);
    case Opcode::CallEither:
      if (i == 0) return false;
      return i <= step.split ? is_kept(step.target, i - 1) : is_kept(step.otherwise, i - 1 - step.split);
    case Opcode::Select: return i > 0;
    default: return true;
  }
}

// Whether an argument turns out to be kept that was not known to be.
bool RetainedArguments::update(const Draft& draft, std::vector<bool>& kept) const {
  const std::vector<Value> viewed = draft.viewed();
  bool changes = false;
  for (const Step& step : draft.steps) {
    for (size_t i = 0; i < step.operands.size(); ++i) {
      if (step.operands[i] < 0) continue;
      const Value origin = viewed[step.operands[i]];
      if (origin >= draft.num_arguments || kept[origin] || !keeps_operand(draft, step, i)) continue;
      kept[origin] = changes = true;
    }
  }
  return changes;
}

}  // namespace anfora::plan
