#include "kernels/input_shapes.h"

#include <utility>

namespace anfora::kernels {

InputShapes input_shapes(const KernelContext& context) {
  InputShapes shapes;
  for (size_t i = 0; i < context.num_inputs(); ++i) {
    const Tensor* tensor = context.optional_input(i);
    shapes.push_back(tensor ? std::optional(tensor->shape()) : std::nullopt);
  }
  return shapes;
}

InputShapes input_shapes(const KernelData& data) {
  InputShapes shapes;
  for (const InputDescription& input : data.inputs) shapes.push_back(input.present ? input.shape : std::nullopt);
  return shapes;
}

bool are_input_shapes(const InputShapes& shapes, const KernelContext& context) {
  bool same = shapes.size() == context.num_inputs();
  for (size_t i = 0; same && i < shapes.size(); ++i) {
    const Tensor* tensor = context.optional_input(i);
    same = tensor ? shapes[i] && *shapes[i] == tensor->shape() : !shapes[i];
  }
  return same;
}

void run_reference(KernelContext& context, std::string_view op, std::span<const Datum* const> inputs) {
  Datum result;
  KernelContext inner = context.inner(context.attributes(), inputs, {&result, 1});
  reference_kernels().find(op)(inner);
  context.set_output(0, std::move(result));
}

}  // namespace anfora::kernels
