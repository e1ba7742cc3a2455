#include "analysis/cost.h"

#include <algorithm>

#include "analysis/flops.h"

namespace anfora::analysis {

using namespace ir;

namespace {

// One core of a present machine, roughly: what matters is the ratio of the three.
constexpr double kOverheadUs = 1.0;
constexpr double kFlopsPerUs = 40'000;
constexpr double kBytesPerUs = 10'000;
// A value is kept where computing it takes at least that many times as long as writing it.
constexpr double kLeastWork = 4.0 / 3;

// Of an operator that is executed.
double time_us(Inference& inference, const Apply& node) {
  double bytes = bytes_of(node.type());
  for (const Use& use : node.operands()) bytes += bytes_of(use.node->type());
  return kOverheadUs + std::max(estimate_flops(inference, node) / kFlopsPerUs, bytes / kBytesPerUs);
}

}  // namespace

double estimate_flops(Inference& inference, const Apply& node) { return FlopCounter(inference, {}, kAssumedDim).of(node); }

double memory_of(const Apply& node) { return node.op().in_file ? 0 : bytes_of(node.type()); }

double bytes_of(const Type* type) {
  if (!type) return 0;
  if (type->is_tuple()) {
    double total = 0;
    for (const Type* item : type->elements()) total += bytes_of(item);
    return total;
  }
  if (!type->is_tensor() || !type->has_rank()) return 0;
  double elements = 1;
  for (Dim dim : type->dims()) {
    auto extent = dim.is_unknown() ? std::nullopt : evaluate(dim, [](std::string_view) { return kAssumedDim; });
    elements *= static_cast<double>(std::max<int64_t>(extent.value_or(kAssumedDim), 0));
  }
  return elements * static_cast<double>(element_bytes(type->dtype()));
}

double run_us(Inference& inference, const Apply& node) {
  if (node.primitive() != Primitive::Operation || node.op().fusion == FusionKind::View) return 0;
  return time_us(inference, node);
}

double estimate_us(Inference& inference, const Apply& node) {
  bool constant = std::ranges::all_of(node.operands(), [](const Use& use) { return use.node->is_value(); });
  return constant && node.num_inputs() > 0 ? 0 : run_us(inference, node);
}

double compute_us(Inference& inference, const Apply& node) { return estimate_flops(inference, node) / kFlopsPerUs; }

double estimate_us(double bytes) { return kOverheadUs + bytes / kBytesPerUs; }

bool is_worth_keeping(Inference& inference, const Apply& node, double bytes) {
  if (node.op().fusion == FusionKind::View) return true;  // it keeps no memory of its own
  if (kOverheadUs * kBytesPerUs >= kLeastWork * bytes) return true;
  return time_us(inference, node) * kBytesPerUs >= kLeastWork * bytes;
}

}  // namespace anfora::analysis
