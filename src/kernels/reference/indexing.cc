// Operators that pick elements or slices by index.
#include <algorithm>
#include <cmath>

#include "kernels/reference/arguments.h"
#include "kernels/reference/families.h"
#include "kernels/reference/offsets.h"
#include "kernels/reference/strided_copy.h"
#include "support/element_types.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels {
namespace {

constexpr int64_t kGrainElements = 16384;

// to[i] = the run of `run` elements at offsets[i].
void gather_runs(const Tensor& from, std::span<const int64_t> offsets, int64_t run, Tensor& to) {
  const int64_t grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(run, 1));
  dispatch_by_size(from.dtype(), [&]<class T>() {
    const T* source = from.data<T>().data();
    T* target = to.data<T>().data();
    parallel_for(std::ssize(offsets), grain, [&](int64_t begin, int64_t end) {
      if (run == 1) {
        for (int64_t i = begin; i < end; ++i) target[i] = source[offsets[i]];
      } else {
        for (int64_t i = begin; i < end; ++i) std::copy_n(source + offsets[i], run, target + i * run);
      }
    });
  });
}

void gather(KernelContext& context) {
  const Tensor& data = context.input(0);
  const Tensor& indices = context.input(1);
  int axis = normalize_axis(context.attributes().get_int("axis", 0), data.rank());
  const std::span<int64_t> picks = normalized_indices(context, indices, data.dim(axis));
  Shape shape(data.shape().begin(), data.shape().begin() + axis);
  shape.insert(shape.end(), indices.shape().begin(), indices.shape().end());
  shape.insert(shape.end(), data.shape().begin() + axis + 1, data.shape().end());
  Tensor& output = context.allocate_output(0, data.dtype(), shape);
  take(data, axis, picks, output);
}

void gather_elements(KernelContext& context) {
  const Tensor& data = context.input(0);
  const Tensor& indices = context.input(1);
  int axis = normalize_axis(context.attributes().get_int("axis", 0), data.rank());
  const ElementOffsets offsets(data.shape(), indices, axis);
  Tensor& output = context.allocate_output(0, data.dtype(), indices.shape());
  const int64_t row = offsets.row(), grain = std::max<int64_t>(1, kGrainElements / std::max<int64_t>(row, 1));
  dispatch_by_size(data.dtype(), [&]<class T>() {
    const T* source = data.data<T>().data();
    T* target = output.data<T>().data();
    parallel_for(offsets.rows(), grain, [&](int64_t begin, int64_t end) {
      Scratch<int64_t> of_row(static_cast<size_t>(row));
      for (int64_t r = begin; r < end; ++r) {
        offsets.of_row(r, of_row.data());
        for (int64_t i = 0; i < row; ++i) target[r * row + i] = source[of_row[static_cast<size_t>(i)]];
      }
    });
  });
}

void gather_nd(KernelContext& context) {
  const Tensor& data = context.input(0);
  const Tensor& indices = context.input(1);
  int64_t batch_dims = context.attributes().get_int("batch_dims", 0);
  if (batch_dims < 0 || batch_dims > data.rank()) refuse("batch_dims is {}", batch_dims);
  const std::span<int64_t> offsets = tuple_offsets(context, data.shape(), indices, static_cast<int>(batch_dims));
  int sliced = static_cast<int>(batch_dims + indices.shape().back());  // axes from here on are taken whole
  Shape shape(indices.shape().begin(), indices.shape().end() - 1);
  shape.insert(shape.end(), data.shape().begin() + sliced, data.shape().end());
  Tensor& output = context.allocate_output(0, data.dtype(), shape);
  if (output.size() == 0) return;
  gather_runs(data, offsets, extent(data.shape(), sliced, data.rank()), output);
}

void compress(KernelContext& context) {
  const Tensor& data = context.input(0);
  const bool flat = !context.attributes().has("axis");
  Tensor input = flat ? data.reshaped(Shape{data.size()}) : data;
  int axis = flat ? 0 : normalize_axis(context.attributes().require_int("axis"), data.rank());
  auto condition = context.input(1).data<bool>();
  ScratchVector<int64_t> kept;
  for (size_t i = 0; i < condition.size(); ++i) {
    if (condition[i]) kept.push_back(static_cast<int64_t>(i));
  }
  if (!kept.empty() && kept.back() >= input.dim(axis)) refuse_index(kept.back(), input.dim(axis));
  Shape shape = input.shape();
  shape[axis] = std::ssize(kept);
  take(input, axis, kept, context.allocate_output(0, data.dtype(), shape));
}

// Entries outside [-depth, depth), which have no place in the output, become -1.
ScratchVector<int64_t> one_hot_positions(const Tensor& indices, int64_t depth) {
  ScratchVector<int64_t> positions(static_cast<size_t>(indices.size()));
  dispatch<Numbers>(indices.dtype(), [&]<class T>() {
    std::ranges::transform(indices.data<T>(), positions.begin(), [&](T given) -> int64_t {
      auto value = static_cast<ComputeType<T>>(given);
      if constexpr (std::is_floating_point_v<decltype(value)>) {
        value = std::trunc(value);
        // Also false for NaN; within the bounds the value is an exact integer.
        if (!(std::abs(value) <= static_cast<decltype(value)>(int64_t{1} << 62))) return -1;
      }
      if (std::cmp_greater_equal(static_cast<std::conditional_t<std::is_same_v<T, uint64_t>, uint64_t, int64_t>>(value),
                                 depth)) {
        return -1;
      }
      int64_t index = static_cast<int64_t>(value);
      return index < -depth ? -1 : index < 0 ? index + depth : index;
    });
  });
  return positions;
}

void one_hot(KernelContext& context) {
  const Tensor& indices = context.input(0);
  const Tensor& values = context.input(2);
  const int64_t depth = integer(context.input(1));
  if (depth < 0) refuse("the depth is {}", depth);
  if (values.size() != 2) refuse("expected the values off and on, got a tensor of shape {}", to_string(values.shape()));
  int axis = normalize_axis(context.attributes().get_int("axis", -1), indices.rank() + 1);
  Shape shape = indices.shape();
  shape.insert(shape.begin() + axis, depth);
  Tensor& output = context.allocate_output(0, values.dtype(), shape);
  ScratchVector<int64_t> positions = one_hot_positions(indices, depth);
  const int64_t inner = extent(indices.shape(), axis, indices.rank());
  dispatch_by_size(values.dtype(), [&]<class T>() {
    T off = values.data<T>()[0], on = values.data<T>()[1];
    dense_fill(values.dtype(), output.size(), output.raw(), &off);
    T* target = output.data<T>().data();
    for (int64_t i = 0; i < std::ssize(positions); ++i) {
      if (positions[i] >= 0) target[(i / inner * depth + positions[i]) * inner + i % inner] = on;
    }
  });
}

}  // namespace

void register_indexing(KernelRegistry& registry) {
  registry.add("Gather", gather);
  registry.add("GatherElements", gather_elements);
  registry.add("GatherND", gather_nd);
  registry.add("Compress", compress);
  registry.add("OneHot", one_hot);
}

}  // namespace anfora::kernels
