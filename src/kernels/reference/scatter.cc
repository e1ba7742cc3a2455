// Operators that write updates into a copy of their first input. When the plan lets the output take the input's
// memory, nothing is copied.
#include <algorithm>
#include <cmath>
#include <complex>

#include "kernels/reference/arguments.h"
#include "kernels/reference/families.h"
#include "kernels/reference/offsets.h"
#include "kernels/reference/strided_copy.h"
#include "kernels/reference/vectorize.h"
#include "support/element_types.h"
#include "support/scratch.h"

namespace anfora::kernels {
namespace {

enum class Reduction { None, Add, Multiply, Max, Min };

Reduction reduction_of(const KernelContext& context) {
  const std::string_view name = context.attributes().string("reduction", "none");
  if (name == "none") return Reduction::None;
  if (name == "add") return Reduction::Add;
  if (name == "mul") return Reduction::Multiply;
  if (name == "max") return Reduction::Max;
  if (name == "min") return Reduction::Min;
  refuse("reduction is '{}'; none, add, mul, max and min exist", name);
}

// Integers wrap around, booleans are the two-element lattice, NaN wins a comparison.
template <Reduction kReduction, class T>
T combine(T old, T update) {
  constexpr bool kIsAdd = kReduction == Reduction::Add, kIsMax = kReduction == Reduction::Max;
  if constexpr (std::is_same_v<T, bool>) {
    return kIsAdd || kIsMax ? old || update : old && update;
  } else if constexpr (std::is_integral_v<T>) {
    if constexpr (kIsAdd) return static_cast<T>(static_cast<uint64_t>(old) + static_cast<uint64_t>(update));
    if constexpr (kReduction == Reduction::Multiply) return static_cast<T>(static_cast<uint64_t>(old) * static_cast<uint64_t>(update));
    return kIsMax ? std::max(old, update) : std::min(old, update);
  } else {
    using C = ComputeType<T>;
    C a = static_cast<C>(old), b = static_cast<C>(update);
    if constexpr (kIsAdd) return static_cast<T>(a + b);
    if constexpr (kReduction == Reduction::Multiply) return static_cast<T>(a * b);
    if constexpr (std::is_floating_point_v<C>) {
      if (std::isnan(a)) return old;
      if (std::isnan(b)) return update;
      return kIsMax == (a < b) ? update : old;
    } else {
      refuse("complex numbers have no order");
    }
  }
}

template <Reduction kReduction, class T>
void combine_runs(T* target, std::span<const int64_t> offsets, int64_t run, const T* source) {
  for (int64_t offset : offsets) {
    ANFORA_INDEPENDENT_ITERATIONS
    for (int64_t k = 0; k < run; ++k) target[offset + k] = combine<kReduction>(target[offset + k], source[k]);
    source += run;
  }
}

// Combines the run of `run` elements at offsets[i] with the i-th run of the updates, in this order.
void scatter_runs(Tensor& output, std::span<const int64_t> offsets, int64_t run, const Tensor& updates,
                  Reduction reduction) {
  if (reduction == Reduction::None) {
    return dispatch_by_size(output.dtype(), [&]<class T>() {
      const T* source = updates.data<T>().data();
      T* target = output.data<T>().data();
      for (size_t i = 0; i < offsets.size(); ++i) std::copy_n(source + i * run, run, target + offsets[i]);
    });
  }
  dispatch<Join<Numbers, Join<Complexes, TypeList<bool>>>>(output.dtype(), [&]<class T>() {
    const T* source = updates.data<T>().data();
    T* target = output.data<T>().data();
    switch (reduction) {
      case Reduction::Add: return combine_runs<Reduction::Add>(target, offsets, run, source);
      case Reduction::Multiply: return combine_runs<Reduction::Multiply>(target, offsets, run, source);
      case Reduction::Max: return combine_runs<Reduction::Max>(target, offsets, run, source);
      default: return combine_runs<Reduction::Min>(target, offsets, run, source);
    }
  });
}

Tensor& copy_to_output(KernelContext& context, const Tensor& data) {
  Tensor& output = context.allocate_output(0, data.dtype(), data.shape());
  if (output.raw() != data.raw()) dense_copy(data.dtype(), data.size(), output.raw(), data.raw());
  return output;
}

void require_same_dtype(const Tensor& data, const Tensor& updates) {
  if (updates.dtype() != data.dtype()) refuse("{} updates for {} data", name(updates.dtype()), name(data.dtype()));
}

void scatter_elements(KernelContext& context) {
  const Tensor& data = context.input(0);
  const Tensor& indices = context.input(1);
  const Tensor& updates = context.input(2);
  require_same_dtype(data, updates);
  if (updates.shape() != indices.shape()) {
    refuse("indices of shape {}, updates of shape {}", to_string(indices.shape()), to_string(updates.shape()));
  }
  int axis = normalize_axis(context.attributes().get_int("axis", 0), data.rank());
  Reduction reduction = reduction_of(context);
  const std::span<int64_t> offsets = element_offsets(context, ElementOffsets(data.shape(), indices, axis));
  scatter_runs(copy_to_output(context, data), offsets, 1, updates, reduction);
}

void scatter_nd(KernelContext& context) {
  const Tensor& data = context.input(0);
  const Tensor& indices = context.input(1);
  const Tensor& updates = context.input(2);
  require_same_dtype(data, updates);
  Reduction reduction = reduction_of(context);
  const std::span<int64_t> offsets = tuple_offsets(context, data.shape(), indices, 0);
  int sliced = static_cast<int>(indices.shape().back());
  Shape expected(indices.shape().begin(), indices.shape().end() - 1);
  expected.insert(expected.end(), data.shape().begin() + sliced, data.shape().end());
  if (updates.shape() != expected) {
    refuse("the updates have shape {}, the indices select {}", to_string(updates.shape()), to_string(expected));
  }
  int64_t run = extent(data.shape(), sliced, data.rank());
  scatter_runs(copy_to_output(context, data), offsets, run, updates, reduction);
}

// Each row of the batch gets its update at a place of its own along `axis`, wrapping around in mode "circular".
void tensor_scatter(KernelContext& context) {
  const Tensor& cache = context.input(0);
  const Tensor& update = context.input(1);
  const int axis = normalize_axis(context.attributes().get_int("axis", -2), cache.rank());
  if (axis == 0) refuse("the batch axis cannot be the one to write along");
  const std::string_view mode = context.attributes().string("mode", "linear");
  if (mode != "linear" && mode != "circular") refuse("mode is '{}'; linear and circular exist", mode);
  require_same_dtype(cache, update);
  Shape expected = cache.shape();
  if (update.rank() == cache.rank()) expected[axis] = update.dim(axis);
  if (update.shape() != expected || update.dim(axis) > cache.dim(axis)) {
    refuse("an update of shape {} does not fit a cache of shape {}", to_string(update.shape()),
           to_string(cache.shape()));
  }
  const int64_t length = update.dim(axis), room = cache.dim(axis), batch = cache.dim(0);
  IntegerList starts(static_cast<size_t>(batch), 0);
  if (const Tensor* given = context.optional_input(2)) starts = integers(*given);
  if (std::ssize(starts) != batch) refuse("{} write indices for a batch of {}", starts.size(), batch);
  for (int64_t& start : starts) {
    if (start < 0 || (mode == "linear" && start > room - length)) {
      refuse("writing {} entries at {} leaves a cache of {}", length, start, room);
    }
    if (room > 0) start %= room;
  }
  Tensor& output = copy_to_output(context, cache);
  if (update.size() == 0) return;
  const int64_t inner = extent(cache.shape(), axis + 1, cache.rank()), middle = extent(cache.shape(), 1, axis);
  ScratchVector<int64_t> offsets;
  for (int64_t row = 0; row < batch * middle; ++row) {
    for (int64_t i = 0; i < length; ++i) {
      offsets.push_back((row * room + (starts[row / middle] + i) % room) * inner);
    }
  }
  scatter_runs(output, offsets, inner, update, Reduction::None);
}

}  // namespace

void register_scatter(KernelRegistry& registry) {
  registry.add("ScatterElements", scatter_elements);
  registry.add("ScatterND", scatter_nd);
  registry.add("TensorScatter", tensor_scatter);
}

}  // namespace anfora::kernels
