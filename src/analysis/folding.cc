#include "analysis/folding.h"

#include <algorithm>

#include "analysis/cost.h"

namespace anfora::analysis {

using namespace ir;

FoldBudget::FoldBudget(const Module& module) : left_(0) {
  for (const Value* value : module.constants()) {
    if (value->has_uses()) left_ += kWorkOfConstantByte * static_cast<double>(value->tensor().bytes());
  }
  left_ = std::max(left_, kLeastWork);
}

double FoldBudget::work_of(Inference& inference, const Apply& node) {
  double bytes = bytes_of(node.type());
  for (const Use& use : node.operands()) bytes += bytes_of(use.node->type());
  return inference.flops(node) + kWorkOfByte * bytes;
}

bool FoldBudget::affords(Inference& inference, std::span<const Apply* const> nodes) const {
  double work = 0;
  for (const Apply* node : nodes) work += work_of(inference, *node);
  return work <= left_ / 2;
}

void FoldBudget::plan(Inference& inference, std::span<const Apply* const> nodes) {
  for (const Apply* node : nodes) {
    if (planned_.insert(node->id()).second) left_ -= work_of(inference, *node);
  }
}

bool FoldBudget::spend(Inference& inference, const Apply& node) {
  if (planned_.erase(node.id()) > 0) return true;
  const Apply* nodes[] = {&node};
  if (!affords(inference, nodes)) return false;
  left_ -= work_of(inference, node);
  return true;
}

}  // namespace anfora::analysis
