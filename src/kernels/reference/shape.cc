// Operators that change or tell the shape of a tensor. Those that keep the order of the elements are views.
#include <algorithm>
#include <numeric>

#include "kernels/reference/arguments.h"
#include "kernels/reference/broadcast.h"
#include "kernels/reference/families.h"
#include "kernels/reference/strided_copy.h"
#include "kernels/reference/strided_view.h"
#include "kernels/reference/view.h"
#include "support/element_types.h"

namespace anfora::kernels {
namespace {

void reshape(KernelContext& context) {
  const Tensor& data = context.input(0);
  const bool zero_is_zero = context.attributes().get_int("allowzero", 0) != 0;
  forward_or_copy(context, 0, data, reshaped_to(data.shape(), integers(context.input(1)), zero_is_zero));
}

void flatten(KernelContext& context) {
  const Tensor& data = context.input(0);
  int64_t axis = context.attributes().get_int("axis", 1);
  if (axis < -data.rank() || axis > data.rank()) refuse("axis {} is out of range for rank {}", axis, data.rank());
  int split = static_cast<int>(axis < 0 ? axis + data.rank() : axis);
  forward_or_copy(context, 0, data, Shape{extent(data.shape(), 0, split), extent(data.shape(), split, data.rank())});
}

void squeeze(KernelContext& context) {
  const Tensor& data = context.input(0);
  Shape shape;
  if (const Tensor* axes = context.optional_input(1); axes && axes->size() > 0) {
    const AxisList drop = normalize_axes(integers(*axes), data.rank());
    for (int d = 0; d < data.rank(); ++d) {
      bool dropped = std::ranges::find(drop, d) != drop.end();
      if (dropped && data.dim(d) != 1) refuse("cannot squeeze axis {} of size {}", d, data.dim(d));
      if (!dropped) shape.push_back(data.dim(d));
    }
  } else {
    std::ranges::copy_if(data.shape(), std::back_inserter(shape), [](int64_t dim) { return dim != 1; });
  }
  forward_or_copy(context, 0, data, shape);
}

void unsqueeze(KernelContext& context) {
  const Tensor& data = context.input(0);
  const IntegerList given = integers(context.input(1));
  int rank = data.rank() + static_cast<int>(given.size());
  const AxisList added = normalize_axes(given, rank);
  Shape shape;
  int from = 0;
  for (int d = 0; d < rank; ++d) {
    shape.push_back(std::ranges::find(added, d) != added.end() ? 1 : data.dim(from++));
  }
  forward_or_copy(context, 0, data, shape);
}

void shape_of(KernelContext& context) {
  const Shape& shape = context.input_datum(0).tensor().shape();
  int64_t rank = std::ssize(shape);
  auto bound = [&](std::string_view name, int64_t otherwise) {
    int64_t axis = context.attributes().get_int(name, otherwise);
    return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  int64_t start = bound("start", 0), end = std::max(bound("end", rank), start);
  Tensor& output = context.allocate_output(0, DType::I64, Shape{end - start});
  std::copy(shape.begin() + start, shape.begin() + end, output.data<int64_t>().begin());
}

void size_of(KernelContext& context) {
  int64_t size = context.input(0).size();
  context.allocate_output(0, DType::I64, {}).data<int64_t>()[0] = size;
}

// The dense tensor whose axis i is axis perm[i] of `data`, seen as of `shape`.
void permute(const Tensor& data, std::span<const int64_t> shape, std::span<const int64_t> perm, const OutputRows& output) {
  const StridedView view = StridedView::dense(shape).permuted(perm);
  strided_copy(data.dtype(), view.shape, output.tensor.raw(), strides_of(output, view.shape), data.raw(), view.strides);
}

// Output 0, all of whose elements lie in `data`, perhaps elsewhere.
void move_or_forward(KernelContext& context, StridedView view) {
  const InputRows input = context.input_rows(0);
  const Tensor& data = input.tensor;
  if (view.is_dense() && element_count(view.shape) == data.size() && !input.are_apart()) return forward_or_copy(context, 0, data, view.shape);
  const OutputRows output = context.allocate_output_rows(0, data.dtype(), view.shape);
  const Shape strides = strides_of(output, view.shape);
  if (input.are_apart()) view.spread_rows(input.length(), input.stride);
  const void* from = element_at(data, view.offset);
  if (from == output.tensor.raw() && strides == view.strides) return;  // planned as a part of the input
  strided_copy(data.dtype(), view.shape, output.tensor.raw(), strides, from, view.strides);
}

void transpose(KernelContext& context) {
  const Tensor& data = context.input(0);
  const bool is_given = context.attributes().has("perm");
  move_or_forward(context, StridedView::dense(data.shape()).permuted(is_given ? std::optional(context.attributes().ints("perm")) : std::nullopt));
}

// Mode DCR of those that move blocks of channels.
bool is_depth_first(const KernelContext& context) {
  const std::string_view mode = context.attributes().string("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") refuse("mode is '{}'; DCR and CRD exist", mode);
  return mode == "DCR";
}

struct Blocks {
  int64_t n, c, h, w, size;
  bool depth_first;
};

Blocks blocks_of(KernelContext& context) {
  const Tensor& data = context.input(0);
  if (data.rank() != 4) refuse("expected an input of rank 4, got {}", data.rank());
  int64_t size = context.attributes().require_int("blocksize");
  if (size < 1 || size > (int64_t{1} << 30)) refuse("blocksize is {}", size);
  return {data.dim(0), data.dim(1), data.dim(2), data.dim(3), size, is_depth_first(context)};
}

void depth_to_space(KernelContext& context) {
  const Tensor& data = context.input(0);
  auto [n, c, h, w, b, depth_first] = blocks_of(context);
  if (c % (b * b) != 0) refuse("{} channels do not divide into blocks of {}", c, b * b);
  int64_t depth = c / (b * b);
  const OutputRows output =
      context.allocate_output_rows(0, data.dtype(), Shape{n, depth, checked_multiply(h, b), checked_multiply(w, b)});
  if (depth_first) return permute(data, Shape{n, b, b, depth, h, w}, Shape{0, 3, 4, 1, 5, 2}, output);
  permute(data, Shape{n, depth, b, b, h, w}, Shape{0, 1, 4, 2, 5, 3}, output);
}

void lowered_depth_to_space(KernelContext& context) {
  const Tensor& data = context.input(0);
  const std::vector<int64_t> blocks = context.attributes().get_ints("blocks");
  if (blocks.size() != 2 || data.rank() != 4) refuse("{} blocks of an image of rank {}", blocks.size(), data.rank());
  const int64_t n = data.dim(0), h = data.dim(1), w = data.dim(2), c = data.dim(3), rows = blocks[0], columns = blocks[1];
  if (rows < 1 || columns < 1 || c % (rows * columns) != 0) refuse("{} channels do not divide into blocks of {} x {}", c, rows, columns);
  const int64_t depth = c / (rows * columns);
  const OutputRows output = context.allocate_output_rows(0, data.dtype(), Shape{n, checked_multiply(h, rows), checked_multiply(w, columns), depth});
  if (is_depth_first(context)) return permute(data, Shape{n, h, w, rows, columns, depth}, Shape{0, 1, 3, 2, 4, 5}, output);
  permute(data, Shape{n, h, w, depth, rows, columns}, Shape{0, 1, 4, 2, 5, 3}, output);
}

void space_to_depth(KernelContext& context) {
  const Tensor& data = context.input(0);
  auto [n, c, h, w, b, depth_first] = blocks_of(context);
  if (h % b != 0 || w % b != 0) refuse("{} x {} does not divide into blocks of {}", h, w, b);
  const OutputRows output = context.allocate_output_rows(0, data.dtype(), Shape{n, checked_multiply(c, b * b), h / b, w / b});
  Shape blocks{n, c, h / b, b, w / b, b};
  permute(data, blocks, depth_first ? Shape{0, 3, 5, 1, 2, 4} : Shape{0, 1, 3, 5, 2, 4}, output);
}

void expand(KernelContext& context) {
  const Tensor& data = context.input(0);
  Shape shape = broadcast_shape(data.shape(), integers(context.input(1)));
  if (element_count(shape) == data.size()) return forward_or_copy(context, 0, data, shape);
  Tensor& output = context.allocate_output(0, data.dtype(), shape);
  strided_copy(data.dtype(), shape, output.raw(), dense_strides(shape), data.raw(),
               broadcast_strides(data.shape(), shape));
}

// Axis d of size n, repeated r times, is the two axes [r, n] of which the source does not walk the first.
void tile(KernelContext& context) {
  const Tensor& data = context.input(0);
  const IntegerList repeats = integers(context.input(1));
  if (std::ssize(repeats) != data.rank()) refuse("{} repeats for rank {}", repeats.size(), data.rank());
  Shape shape, sizes, from, strides = dense_strides(data.shape());
  for (int d = 0; d < data.rank(); ++d) {
    if (repeats[d] < 0) refuse("axis {} is to be repeated {} times", d, repeats[d]);
    shape.push_back(checked_multiply(data.dim(d), repeats[d]));
    if (repeats[d] != 1) sizes.push_back(repeats[d]), from.push_back(0);
    sizes.push_back(data.dim(d)), from.push_back(strides[d]);
  }
  if (shape == data.shape()) return forward_or_copy(context, 0, data);
  Tensor& output = context.allocate_output(0, data.dtype(), shape);
  if (output.size() == 0) return;
  strided_copy(data.dtype(), sizes, output.raw(), dense_strides(sizes), data.raw(), from);
}

void concat(KernelContext& context) {
  boost::container::small_vector<const Tensor*, 8> inputs;
  boost::container::small_vector<int64_t, 8> row_strides;
  for (size_t i = 0; i < context.num_inputs(); ++i) {
    inputs.push_back(&context.input(i));
    row_strides.push_back(context.input_rows(i).stride);
  }
  if (inputs.empty()) refuse("there is nothing to concatenate");
  int axis = normalize_axis(context.attributes().require_int("axis"), inputs[0]->rank());
  Shape shape = concatenated_shape(inputs, axis);
  Tensor& output = context.allocate_output(0, inputs[0]->dtype(), shape);
  // Parts in the planned memory are rows that lie apart as its rows do.
  if (const Tensor* planned = context.planned_output(0); planned && planned->raw() != output.raw()) {
    for (const Tensor* input : inputs) {
      const std::ptrdiff_t place = static_cast<const std::byte*>(input->raw()) - static_cast<const std::byte*>(planned->raw());
      if (place >= 0 && place < static_cast<std::ptrdiff_t>(planned->bytes()) && input->size() > 0)
        throw Error(ErrorCode::Internal, "a part was written into a result of another size");
    }
  }
  concatenate(inputs, axis, output, row_strides);
}

IntegerList split_sizes(KernelContext& context, int64_t size) {
  const int64_t outputs = static_cast<int64_t>(context.num_outputs());
  if (const Tensor* given = context.optional_input(1)) {
    IntegerList sizes = integers(*given);
    if (std::ssize(sizes) < outputs) refuse("{} sizes for {} outputs", sizes.size(), outputs);
    int64_t sum = 0;
    for (int64_t part : sizes) {
      if (part < 0) refuse("a part is to have size {}", part);
      sum = checked_add(sum, part);
    }
    if (sum != size) refuse("the parts sum up to {}, the axis has size {}", sum, size);
    return sizes;
  }
  int64_t parts = context.attributes().get_int("num_outputs", outputs);
  if (parts < outputs) refuse("num_outputs is {}, but there are {} outputs", parts, outputs);
  // The last parts are smaller, or empty, when the size is no multiple. Those that nobody wants are left out.
  int64_t part = (size + parts - 1) / parts;
  IntegerList sizes;
  for (int64_t i = 0; i < outputs; ++i) sizes.push_back(std::clamp<int64_t>(size - i * part, 0, part));
  return sizes;
}

void split(KernelContext& context) {
  const Tensor& data = context.input(0);
  int axis = normalize_axis(context.attributes().get_int("axis", 0), data.rank());
  const IntegerList sizes = split_sizes(context, data.dim(axis));
  Shape shape = data.shape();
  int64_t begin = 0;
  for (size_t i = 0; i < context.num_outputs(); ++i) {
    shape[axis] = sizes[i];
    copy_slice(data, axis, begin, context.allocate_output(i, data.dtype(), shape));
    begin += sizes[i];
  }
}

void slice(KernelContext& context) {
  const Tensor& data = context.input(0);
  const StridedView all = StridedView::dense(data.shape());
  move_or_forward(context, all.sliced(context.input(1), context.input(2), context.optional_input(3), context.optional_input(4)));
}

void reverse_sequence(KernelContext& context) {
  const Tensor& data = context.input(0);
  if (data.rank() < 2) refuse("expected an input of rank 2 or more, got {}", data.rank());
  int batch = normalize_axis(context.attributes().get_int("batch_axis", 1), 2);
  int time = normalize_axis(context.attributes().get_int("time_axis", 0), 2);
  if (batch == time) refuse("batch_axis and time_axis are both {}", batch);
  const IntegerList lengths = integers(context.input(1));
  if (std::ssize(lengths) != data.dim(batch)) refuse("{} lengths for a batch of {}", lengths.size(), data.dim(batch));
  for (int64_t length : lengths) {
    if (length < 0 || length > data.dim(time)) refuse("a length is {}, the time axis {}", length, data.dim(time));
  }
  Tensor& output = context.allocate_output(0, data.dtype(), data.shape());
  Shape strides = dense_strides(data.shape());
  int64_t inner = extent(data.shape(), 2, data.rank());
  for (int64_t b = 0; b < data.dim(batch); ++b) {
    auto copy = [&](int64_t begin, int64_t count, int64_t from_begin, int64_t from_step) {
      strided_copy(data.dtype(), Shape{count, inner},
                   element_at(output, b * strides[batch] + begin * strides[time]),
                   Shape{strides[time], 1},
                   element_at(data, b * strides[batch] + from_begin * strides[time]),
                   Shape{from_step * strides[time], 1});
    };
    copy(0, lengths[b], lengths[b] - 1, -1);
    copy(lengths[b], data.dim(time) - lengths[b], lengths[b], 1);
  }
}

}  // namespace

void register_shape(KernelRegistry& registry) {
  registry.add("Reshape", reshape);
  registry.add("Flatten", flatten);
  registry.add("Squeeze", squeeze);
  registry.add("Unsqueeze", unsqueeze);
  registry.add("Shape", shape_of);
  registry.add("Size", size_of);
  registry.add("Transpose", transpose, {.of_output = true, .of_inputs = true});
  registry.add("DepthToSpace", depth_to_space, {.of_output = true});
  registry.add("LoweredDepthToSpace", lowered_depth_to_space, {.of_output = true});
  registry.add("SpaceToDepth", space_to_depth, {.of_output = true});
  registry.add("Expand", expand);
  registry.add("Tile", tile);
  registry.add("Concat", concat, {.of_inputs = true});
  registry.add("Split", split);
  registry.add("Slice", slice, {.of_output = true, .of_inputs = true});
  registry.add("ReverseSequence", reverse_sequence);
}

}  // namespace anfora::kernels
