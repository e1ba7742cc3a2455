#include "kernels/input_shapes.h"

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

}  // namespace anfora::kernels
