// Sequences and optionals. Items are handles: inserting and erasing move no elements. A present optional is the element
// itself at run time, an absent one is nothing.
#include <algorithm>

#include "kernels/reference/arguments.h"
#include "kernels/reference/families.h"
#include "kernels/reference/strided_copy.h"
#include "support/element_types.h"

namespace anfora::kernels {
namespace {

void sequence_construct(KernelContext& context) {
  std::vector<Datum> items;
  for (size_t i = 0; i < context.num_inputs(); ++i) items.push_back(context.input_datum(i));
  context.set_output(0, Datum::sequence(std::move(items)));
}

void sequence_empty(KernelContext& context) { context.set_output(0, Datum::sequence({})); }

void sequence_length(KernelContext& context) {
  int64_t length = std::ssize(context.input_datum(0).items());
  context.allocate_output(0, DType::I64, {}).data<int64_t>()[0] = length;
}

void sequence_at(KernelContext& context) {
  const std::vector<Datum>& items = context.input_datum(0).items();
  context.set_output(0, items[normalize_index(integer(context.input(1)), std::ssize(items))]);
}

void sequence_insert(KernelContext& context) {
  std::vector<Datum> items = context.take_input(0).take_items();
  int64_t position = std::ssize(items);
  if (const Tensor* given = context.optional_input(2)) {
    position = integer(*given);
    if (position < -std::ssize(items) || position > std::ssize(items)) refuse_index(position, std::ssize(items));
    if (position < 0) position += std::ssize(items);
  }
  items.insert(items.begin() + position, context.input_datum(1));
  context.set_output(0, Datum::sequence(std::move(items)));
}

void sequence_replace(KernelContext& context) {
  std::vector<Datum> items = context.take_input(0).take_items();
  items[static_cast<size_t>(normalize_index(integer(context.input(2)), std::ssize(items)))] = context.input_datum(1);
  context.set_output(0, Datum::sequence(std::move(items)));
}

void sequence_erase(KernelContext& context) {
  std::vector<Datum> items = context.take_input(0).take_items();
  const Tensor* given = context.optional_input(1);
  items.erase(items.begin() + normalize_index(given ? integer(*given) : -1, std::ssize(items)));
  context.set_output(0, Datum::sequence(std::move(items)));
}

void concat_from_sequence(KernelContext& context) {
  const std::vector<Datum>& items = context.input_datum(0).items();
  if (items.empty()) refuse("an empty sequence cannot be concatenated");
  const bool stack = context.attributes().get_int("new_axis", 0) != 0;
  const int rank = items[0].tensor().rank();
  const int axis = normalize_axis(context.attributes().require_int("axis"), stack ? rank + 1 : rank);
  std::vector<Tensor> tensors;
  for (const Datum& item : items) {
    Tensor tensor = item.tensor();
    if (stack) {
      if (tensor.rank() != rank) refuse("cannot stack tensors of rank {} and {}", rank, tensor.rank());
      Shape shape = tensor.shape();
      shape.insert(shape.begin() + axis, 1);
      tensor = tensor.reshaped(shape);
    }
    tensors.push_back(std::move(tensor));
  }
  std::vector<const Tensor*> inputs;
  for (const Tensor& tensor : tensors) inputs.push_back(&tensor);
  Shape shape = concatenated_shape(inputs, axis);
  concatenate(inputs, axis, context.allocate_output(0, tensors[0].dtype(), shape));
}

void split_to_sequence(KernelContext& context) {
  const Tensor& data = context.input(0);
  const int axis = normalize_axis(context.attributes().get_int("axis", 0), data.rank());
  const Tensor* split = context.optional_input(1);
  const bool keep_axis = split || context.attributes().get_int("keepdims", 1) != 0;
  const int64_t size = data.dim(axis);
  IntegerList sizes;
  if (split && split->rank() > 0) {
    sizes = integers(*split);
  } else {
    const int64_t part = split ? integer(*split) : 1;
    if (part < 1) refuse("a part is to have size {}", part);
    for (int64_t begin = 0; begin < size; begin += std::min(part, size - begin)) {
      sizes.push_back(std::min(part, size - begin));
    }
  }
  int64_t sum = 0;
  for (int64_t part : sizes) {
    if (part < 0) refuse("a part is to have size {}", part);
    sum = checked_add(sum, part);
  }
  if (sum != size) refuse("the parts sum up to {}, the axis has size {}", sum, size);

  std::vector<Datum> items;
  Shape shape = data.shape();
  int64_t begin = 0;
  for (int64_t part : sizes) {
    shape[axis] = part;
    Tensor item = Tensor::allocate(data.dtype(), shape);
    copy_slice(data, axis, begin, item);
    begin += part;
    Shape kept = shape;
    if (!keep_axis) kept.erase(kept.begin() + axis);
    items.push_back(item.reshaped(kept));
  }
  context.set_output(0, Datum::sequence(std::move(items)));
}

void optional(KernelContext& context) {
  context.set_output(0, context.has_input(0) ? context.input_datum(0) : Datum());
}

void optional_has_element(KernelContext& context) {
  bool present = context.has_input(0);
  context.allocate_output(0, DType::Bool, {}).data<bool>()[0] = present;
}

void optional_get_element(KernelContext& context) {
  if (!context.has_input(0)) refuse("the optional is empty");
  context.set_output(0, context.input_datum(0));
}

}  // namespace

void register_sequence(KernelRegistry& registry) {
  registry.add("SequenceConstruct", sequence_construct);
  registry.add("SequenceEmpty", sequence_empty);
  registry.add("SequenceLength", sequence_length);
  registry.add("SequenceAt", sequence_at);
  registry.add("SequenceInsert", sequence_insert);
  registry.add("SequenceErase", sequence_erase);
  registry.add("SequenceReplace", sequence_replace);
  registry.add("ConcatFromSequence", concat_from_sequence);
  registry.add("SplitToSequence", split_to_sequence);
  registry.add("Optional", optional);
  registry.add("OptionalHasElement", optional_has_element);
  registry.add("OptionalGetElement", optional_get_element);
}

}  // namespace anfora::kernels
