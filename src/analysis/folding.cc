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

std::optional<Tensor> known_elements(const Inference& inference, const Apply& node) {
  if (node.num_outputs() != 1 || !node.type() || !node.type()->is_tensor()) return std::nullopt;
  const DType dtype = node.type()->dtype();
  if (dtype != DType::I64 && dtype != DType::I32 && dtype != DType::Bool) return std::nullopt;
  const auto elements = inference.elements(&node);
  const auto shape = node.type()->static_shape();
  if (!elements || !shape || element_count(*shape) != std::ssize(*elements)) return std::nullopt;
  if (!std::ranges::all_of(*elements, &Dim::is_constant)) return std::nullopt;
  Tensor value = Tensor::allocate(dtype, *shape);
  for (size_t i = 0; i < elements->size(); ++i) {
    const int64_t element = (*elements)[i].constant();
    switch (dtype) {
      case DType::I64: value.data<int64_t>()[i] = element; break;
      case DType::I32: value.data<int32_t>()[i] = static_cast<int32_t>(element); break;
      default: value.data<bool>()[i] = element != 0;
    }
  }
  return value;
}

}  // namespace anfora::analysis
