// Reference kernels that read so much from their attributes, or from constants, that they do it once, when a model is loaded.
#pragma once

#include "kernels/prepared.h"

namespace anfora::kernels {

// Made once. Each computes what the operator's reference kernel does.
const PreparedRegistry& prepared_reference_kernels();

void prepare_lowered(PreparedRegistry& registry);
void prepare_ml_features(PreparedRegistry& registry);
void prepare_ml_trees(PreparedRegistry& registry);
void prepare_poolings(PreparedRegistry& registry);
void prepare_placed_runs(PreparedRegistry& registry);
void prepare_text(PreparedRegistry& registry);

// An Operation is made from the attributes, which outlive it, and has run(KernelContext&) const. It serves as both:
template <class Operation>
void run_operation(KernelContext& context) {
  Operation(context.attributes()).run(context);
}

template <class Operation>
class PreparedOperation : public PreparedKernel {
 public:
  explicit PreparedOperation(const AttributeSet& attributes) : operation_(attributes) {}
  void run(KernelContext& context, State*) const override { operation_.run(context); }

 private:
  Operation operation_;
};

template <class Operation>
std::unique_ptr<PreparedKernel> prepare_operation(KernelData& data) {
  return std::make_unique<PreparedOperation<Operation>>(data.attributes);
}

}  // namespace anfora::kernels
