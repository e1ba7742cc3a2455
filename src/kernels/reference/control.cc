#include <algorithm>

#include "kernels/reference/arguments.h"
#include "kernels/reference/families.h"
#include "kernels/reference/strided_copy.h"

namespace anfora::kernels {
namespace {

void stack_sequence(KernelContext& context) {
  const std::vector<Datum>& items = context.input_datum(0).items();
  const int64_t axis_attribute = context.attributes().get_int("axis", 0);
  if (items.empty()) {
    std::vector<int64_t> declared = context.attributes().get_ints("shape");
    Shape shape(declared.begin(), declared.end());
    for (int64_t& size : shape) size = std::max<int64_t>(size, 0);
    shape.insert(shape.begin() + normalize_axis(axis_attribute, std::ssize(shape) + 1), 0);
    context.allocate_output(0, dtype_attribute(context.attributes(), "dtype", DType::F32), shape);
    return;
  }
  const int rank = items[0].tensor().rank();
  const int axis = normalize_axis(axis_attribute, rank + 1);
  std::vector<Tensor> slices;
  for (const Datum& item : items) {
    const Tensor& tensor = item.tensor();
    if (tensor.rank() != rank) refuse("cannot stack tensors of rank {} and {}", rank, tensor.rank());
    Shape shape = tensor.shape();
    shape.insert(shape.begin() + axis, 1);
    slices.push_back(tensor.reshaped(shape));
  }
  if (context.attributes().get_int("reverse", 0) != 0) std::ranges::reverse(slices);
  std::vector<const Tensor*> inputs;
  for (const Tensor& slice : slices) inputs.push_back(&slice);
  Shape shape = concatenated_shape(inputs, axis);
  concatenate(inputs, axis, context.allocate_output(0, slices[0].dtype(), shape));
}

}  // namespace

void register_control(KernelRegistry& registry) { registry.add("StackSequence", stack_sequence); }

}  // namespace anfora::kernels
