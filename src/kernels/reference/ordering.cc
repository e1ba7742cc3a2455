// Operators about the order of elements: selection, deduplication, positions, running sums.
#include <algorithm>
#include <complex>
#include <numeric>

#include "kernels/reference/arguments.h"
#include "kernels/reference/broadcast.h"
#include "kernels/reference/families.h"
#include "kernels/reference/order_key.h"
#include "kernels/reference/strided_copy.h"
#include "kernels/reference/vectorize.h"
#include "support/element_types.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels {
namespace {

// TopK selects among integers that hold an element's key above the complement of its index: the largest of them are
// the largest elements, of equal ones the first. For the smallest elements the key is complemented. Those that may be among the k largest
// are collected, and reduced to the k largest when there is no more room.
constexpr int64_t kTopCandidates = 64;  // besides twice as many as wanted

// Elements that are compared with the least of the largest at once, and where one may be among these, again.
constexpr int64_t kTopBlock = 32, kTopPart = 8;

// Whether one of kCount elements is as large, or small, as a bound. NaN is.
template <int64_t kCount, class T>
bool reaches(const T* elements, T bound, bool largest) {
  OrderKey<T> beyond = 0;  // as wide as an element, so that the loops vectorize
  if (largest) {
    for (int64_t i = 0; i < kCount; ++i) beyond += elements[i] < bound;
  } else {
    for (int64_t i = 0; i < kCount; ++i) beyond += elements[i] > bound;
  }
  return beyond != kCount;
}

template <class Packed, class T>
void top_k_line(const T* from, int64_t stride, int64_t n, int64_t k, bool largest, std::span<Packed> packed,
                T* values, int64_t* indices, int64_t out_stride) {
  constexpr int index_bits = 8 * sizeof(Packed) / 2;
  constexpr Packed index_mask = (Packed{1} << index_bits) - 1;
  const auto capacity = static_cast<int64_t>(packed.size());
  int64_t count = 0;
  Packed least = 0;  // of the k largest so far; below all that is packed
  auto keep_largest = [&] {
    if (count <= k) return;
    std::nth_element(packed.begin(), packed.begin() + k - 1, packed.begin() + count, std::greater<>{});
    least = packed[k - 1];
    count = k;
  };
  auto index_of = [&](Packed packed) { return static_cast<int64_t>(index_mask - (packed & index_mask)); };
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_arithmetic_v<T>) {
      if (stride == 1 && i % kTopPart == 0 && least != 0) {
        const T bound = from[index_of(least)];
        if (i % kTopBlock == 0 && i + kTopBlock <= n && !reaches<kTopBlock>(from + i, bound, largest)) {
          i += kTopBlock - 1;
          continue;
        }
        if (i + kTopPart <= n && !reaches<kTopPart>(from + i, bound, largest)) {
          i += kTopPart - 1;
          continue;
        }
      }
    }
    OrderKey<T> key = order_key(from[i * stride]);
    if (!largest) key = ~key;
    const Packed next = (static_cast<Packed>(key) << index_bits) | (index_mask - static_cast<Packed>(i));
    if (next <= least) continue;
    packed[count++] = next;
    if (count == capacity) keep_largest();
  }
  keep_largest();
  std::sort(packed.begin(), packed.begin() + k, std::greater<>{});
  for (int64_t i = 0; i < k; ++i) {
    const int64_t index = index_of(packed[i]);
    values[i * out_stride] = from[index * stride];
    indices[i * out_stride] = index;
  }
}

void top_k(KernelContext& context) {
  const Tensor& data = context.input(0);
  const int axis = normalize_axis(context.attributes().get_int("axis", -1), data.rank());
  const bool largest = context.attributes().get_int("largest", 1) != 0;
  const int64_t k = integer(context.input(1)), n = data.dim(axis);
  if (k < 0 || k > n) refuse("k is {}, axis {} has size {}", k, axis, n);
  Shape shape = data.shape();
  shape[axis] = k;
  Tensor& values = context.allocate_output(0, data.dtype(), shape);
  Tensor& indices = context.allocate_output(1, DType::I64, shape);
  if (values.size() == 0) return;
  const int64_t inner = extent(shape, axis + 1, data.rank()), lines = extent(shape, 0, axis) * inner;
  dispatch<Numbers>(data.dtype(), [&]<class T>() {
    using Packed = std::conditional_t<sizeof(OrderKey<T>) == 4, uint64_t, unsigned __int128>;
    if (sizeof(Packed) == 8 && n > int64_t{0xffffffff}) refuse("an axis of {} elements is too long", n);
    const T* from = data.data<T>().data();
    T* to = values.data<T>().data();
    int64_t* positions = indices.data<int64_t>().data();
    parallel_for(lines, std::max<int64_t>(1, 4096 / n), [&](int64_t begin, int64_t end) {
      Scratch<Packed> packed(static_cast<size_t>(std::min(n, kTopCandidates + 2 * k)));
      for (int64_t line = begin; line < end; ++line) {
        int64_t source = line / inner * n * inner + line % inner, target = line / inner * k * inner + line % inner;
        top_k_line<Packed>(from + source, inner, n, k, largest, {packed.data(), packed.size()}, to + target, positions + target, inner);
      }
    });
  });
}

// What Unique finds among `count` items: which are first of their kind, and the kind of each.
struct Kinds {
  ScratchVector<int64_t> first;    // by kind: the first item of it
  ScratchVector<int64_t> members;  // by kind: how many items
  ScratchVector<int64_t> of_item;
};

// Item i is the `length` keys from keys + i * length on. Kinds are in ascending order, or in that of appearance.
template <class Key>
Kinds find_kinds(const Key* keys, int64_t count, int64_t length, bool sorted) {
  auto compare = [&](int64_t a, int64_t b) {
    return std::lexicographical_compare_three_way(keys + a * length, keys + (a + 1) * length, keys + b * length,
                                                  keys + (b + 1) * length);
  };
  ScratchVector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    auto relation = compare(a, b);
    return relation != 0 ? relation < 0 : a < b;
  });
  Kinds kinds;
  kinds.of_item.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || compare(order[i - 1], order[i]) != 0) {
      kinds.first.push_back(order[i]);
      kinds.members.push_back(0);
    }
    ++kinds.members.back();
    kinds.of_item[order[i]] = std::ssize(kinds.first) - 1;
  }
  if (sorted) return kinds;
  ScratchVector<int64_t> by_appearance(kinds.first.size()), rank(kinds.first.size());
  std::iota(by_appearance.begin(), by_appearance.end(), 0);
  std::ranges::sort(by_appearance, {}, [&](int64_t kind) { return kinds.first[kind]; });
  Kinds result;
  for (int64_t kind : by_appearance) {
    rank[kind] = std::ssize(result.first);
    result.first.push_back(kinds.first[kind]);
    result.members.push_back(kinds.members[kind]);
  }
  for (int64_t kind : kinds.of_item) result.of_item.push_back(rank[kind]);
  return result;
}

Kinds find_kinds(const Tensor& items, int64_t count, bool sorted) {
  const int64_t length = count == 0 ? 0 : items.size() / count;
  if (items.dtype() == DType::String) {
    return find_kinds(items.data<std::string>().data(), count, length, sorted);
  }
  ScratchVector<uint64_t> keys;
  if (items.dtype() == DType::C64 || items.dtype() == DType::C128) {
    dispatch<Complexes>(items.dtype(), [&]<class T>() {
      for (T value : items.data<T>()) keys.insert(keys.end(), {order_key(value.real()), order_key(value.imag())});
    });
    return find_kinds(keys.data(), count, 2 * length, sorted);
  }
  dispatch<Join<Numbers, TypeList<bool>>>(items.dtype(), [&]<class T>() {
    for (T value : items.data<T>()) keys.push_back(order_key(value));
  });
  return find_kinds(keys.data(), count, length, sorted);
}

void put_integers(KernelContext& context, size_t output, std::span<const int64_t> values) {
  if (output >= context.num_outputs()) return;
  std::ranges::copy(values,
                    context.allocate_output(output, DType::I64, Shape{std::ssize(values)}).data<int64_t>().begin());
}

void unique(KernelContext& context) {
  const Tensor& data = context.input(0);
  const bool sorted = context.attributes().get_int("sorted", 1) != 0;
  const bool flat = !context.attributes().has("axis");
  const Tensor input = flat ? data.reshaped(Shape{data.size()}) : data;
  const int axis = flat ? 0 : normalize_axis(context.attributes().require_int("axis"), data.rank());
  const int64_t count = input.dim(axis);

  // One item after the other: [axis, outer, inner].
  const int64_t outer = extent(input.shape(), 0, axis), inner = extent(input.shape(), axis + 1, input.rank());
  Tensor items = input;
  if (outer != 1) {
    items = context.temporary(input.dtype(), Shape{count, outer, inner});
    strided_copy(input.dtype(), items.shape(), items.raw(), dense_strides(items.shape()), input.raw(),
                 Shape{inner, count * inner, 1});
  }
  Kinds kinds = find_kinds(items, count, sorted);

  Shape shape = input.shape();
  shape[axis] = std::ssize(kinds.first);
  take(input, axis, kinds.first, context.allocate_output(0, input.dtype(), shape));
  put_integers(context, 1, kinds.first);
  put_integers(context, 2, kinds.of_item);
  put_integers(context, 3, kinds.members);
}

void non_zero(KernelContext& context) {
  const Tensor& data = context.input(0);
  ScratchVector<int64_t> found;
  dispatch<Join<Join<Numbers, Complexes>, TypeList<bool, std::string>>>(data.dtype(), [&]<class T>() {
    auto elements = data.data<T>();
    for (size_t i = 0; i < elements.size(); ++i) {
      bool zero;
      if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
        zero = static_cast<float>(elements[i]) == 0;
      } else {
        zero = elements[i] == T{};
      }
      if (!zero) found.push_back(static_cast<int64_t>(i));
    }
  });
  const int64_t count = std::ssize(found);
  Tensor& output = context.allocate_output(0, DType::I64, Shape{data.rank(), count});
  int64_t* to = output.data<int64_t>().data();
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = found[i];
    for (int d = data.rank() - 1; d >= 0; rest /= data.dim(d), --d) to[d * count + i] = rest % data.dim(d);
  }
}

template <class T, class Combine>
void scan_row(const T* from, T* to, int64_t n, bool exclusive, bool reverse, ComputeType<T> neutral, Combine combine) {
  using C = ComputeType<T>;
  C total = neutral;
  for (int64_t j = 0; j < n; ++j) {
    const int64_t at = reverse ? n - 1 - j : j;
    const C next = combine(total, static_cast<C>(from[at]));
    to[at] = static_cast<T>(exclusive ? total : next);
    total = next;
  }
}

// The running reduction along the middle axis of [outer, n, inner].
template <class T, class Combine>
void scan(const T* from, T* to, int64_t outer, int64_t n, int64_t inner, bool exclusive, bool reverse,
          ComputeType<T> neutral, Combine combine) {
  using C = ComputeType<T>;
  constexpr int64_t kChunk = 256;  // accumulators at a time, so that neighbours along `inner` go together
  const int64_t chunks = (inner + kChunk - 1) / kChunk;
  parallel_for(outer * chunks, std::max<int64_t>(1, kElementwiseGrain / (n * std::min(inner, kChunk))),
               [&](int64_t begin, int64_t end) {
                 for (int64_t item = begin; item < end; ++item) {
                   if (inner == 1) {
                     scan_row(from + item * n, to + item * n, n, exclusive, reverse, neutral, combine);
                     continue;
                   }
                   const int64_t first = item % chunks * kChunk, width = std::min(kChunk, inner - first);
                   C accumulators[kChunk];
                   std::fill_n(accumulators, width, neutral);
                   for (int64_t j = 0; j < n; ++j) {
                     const int64_t at = (item / chunks * n + (reverse ? n - 1 - j : j)) * inner + first;
                     const T* x = from + at;
                     T* y = to + at;
                     if (exclusive) {
                       ANFORA_INDEPENDENT_ITERATIONS
                       for (int64_t i = 0; i < width; ++i) {
                         const C next = combine(accumulators[i], static_cast<C>(x[i]));
                         y[i] = static_cast<T>(accumulators[i]);
                         accumulators[i] = next;
                       }
                       continue;
                     }
                     ANFORA_INDEPENDENT_ITERATIONS
                     for (int64_t i = 0; i < width; ++i) {
                       accumulators[i] = combine(accumulators[i], static_cast<C>(x[i]));
                       y[i] = static_cast<T>(accumulators[i]);
                     }
                   }
                 }
               });
}

template <bool Multiply>
void cumulative(KernelContext& context) {
  const Tensor& data = context.input(0);
  const int axis = normalize_axis(integer(context.input(1)), data.rank());
  const bool exclusive = context.attributes().get_int("exclusive", 0) != 0;
  const bool reverse = context.attributes().get_int("reverse", 0) != 0;
  Tensor& output = context.allocate_output(0, data.dtype(), data.shape());
  if (output.size() == 0) return;
  const int64_t outer = extent(data.shape(), 0, axis), inner = extent(data.shape(), axis + 1, data.rank());
  // Signed integers wrap around, which is what the unsigned ones of their size do.
  DType dtype = data.dtype() == DType::I32 ? DType::U32 : data.dtype() == DType::I64 ? DType::U64 : data.dtype();
  dispatch<Join<Floats, TypeList<uint32_t, uint64_t>>>(dtype, [&]<class T>() {
    using C = ComputeType<T>;
    scan(data.data<T>().data(), output.data<T>().data(), outer, data.dim(axis), inner, exclusive, reverse,
         Multiply ? C{1} : C{0}, [](C a, C b) { return Multiply ? a * b : a + b; });
  });
}

}  // namespace

void register_ordering(KernelRegistry& registry) {
  registry.add("TopK", top_k);
  registry.add("Unique", unique);
  registry.add("NonZero", non_zero);
  registry.add("CumSum", cumulative<false>);
  registry.add("CumProd", cumulative<true>);
}

}  // namespace anfora::kernels
