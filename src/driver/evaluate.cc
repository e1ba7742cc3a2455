#include "driver/evaluate.h"

#include <boost/container/small_vector.hpp>

#include "analysis/evaluate.h"
#include "kernels/onednn/onednn_kernels.h"

namespace anfora::driver {

namespace {

std::vector<Datum> evaluate_fast(const ir::Operator& op, const AttributeSet& attributes, std::span<const Datum> inputs,
                                 size_t num_outputs) {
  // Nothing is known to be constant: packing would be for one use.
  kernels::KernelData data{.op = std::string(op.qualified), .attributes = attributes, .inputs = {}, .num_outputs = num_outputs};
  boost::container::small_vector<const Datum*, 8> pointers;
  for (const Datum& input : inputs) {
    pointers.push_back(&input);
    kernels::InputDescription& description = data.inputs.emplace_back();
    description.present = !input.is_none();
    if (!input.is_tensor()) continue;
    description.dtype = input.tensor().dtype();
    description.shape = input.tensor().shape();
  }
  const auto kernel = kernels::onednn_kernels().prepare(data);
  if (!kernel) return analysis::evaluate_operator(op, attributes, inputs, num_outputs);
  std::vector<Datum> outputs(num_outputs);
  kernels::PreparedRun(*kernel).run(attributes, {pointers.data(), pointers.size()}, outputs);
  return outputs;
}

}  // namespace

passes::Evaluator fast_evaluator() { return evaluate_fast; }

}  // namespace anfora::driver
