// Reductions along any axes.
//
// The input's dimensions split into those that are kept and those that are reduced; a loop nest over each (neighbours
// merged) gives offsets into the input, and their sum is an element. Two shapes of the inner loop serve all:
//
//   rows      the last dimension is reduced: fold each contiguous row into one number (fold.h), in SIMD lanes
//   columns   the last dimension is kept: fold row after row, element by element, into a strip of results
//
//     x[K, R] -> y[K]     for k: y[k] = fold x[k, :]                    rows
//     x[R, K] -> y[K]     for r: y[:] = fold(y[:], x[r, :])             columns
//
// Threads divide the results among them. Where there are few results, of many elements each, the reduced dimensions
// are cut into parts, as many as the sizes alone say, so that the result does not depend on the number of threads.
//
// Floats accumulate in double, integers in 64 bits, wrapping around. Other types are converted first.
#include "kernels/reference/reduction.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference/arguments.h"
#include "kernels/reference/axis.h"
#include "kernels/reference/cast.h"
#include "kernels/reference/elementwise.h"
#include "kernels/reference/families.h"
#include "kernels/reference/fold.h"
#include "kernels/reference/vector_math.h"
#include "support/parallel.h"

namespace anfora::kernels {
namespace {

struct Split {
  LoopNest kept, reduced;  // operand 0: the input
  Shape result;            // with keepdims applied
  Shape kept_as_ones;      // with keepdims, whatever the attribute says

  int64_t elements_each() const { return reduced.size(); }
  bool by_rows() const { return reduced.sizes().back() > 1 && reduced.run_stride(0) == 1; }
};

Split split_axes(const Shape& shape, AxisFlags is_reduced, bool keepdims) {
  const Shape strides = dense_strides(shape);
  Shape kept_sizes, kept_strides, reduced_sizes, reduced_strides, result, ones;
  for (size_t i = 0; i < shape.size(); ++i) {
    (is_reduced[i] ? reduced_sizes : kept_sizes).push_back(shape[i]);
    (is_reduced[i] ? reduced_strides : kept_strides).push_back(strides[i]);
    if (!is_reduced[i] || keepdims) result.push_back(is_reduced[i] ? 1 : shape[i]);
    ones.push_back(is_reduced[i] ? 1 : shape[i]);
  }
  return {LoopNest(kept_sizes, {kept_strides}), LoopNest(reduced_sizes, {reduced_strides}), result, ones};
}

using ReducedAxes = boost::container::small_vector<bool, 8>;

// Which axes are reduced, from the optional input `axes`.
ReducedAxes reduced_axes(const KernelContext& context) {
  const int rank = context.input(0).rank();
  IntegerList axes;
  if (const Tensor* given = context.optional_input(1)) axes = integers(*given);
  const bool none_means_all = context.attributes().get_int("noop_with_empty_axes", 0) == 0;
  ReducedAxes reduced(static_cast<size_t>(rank), axes.empty() && none_means_all);
  for (int64_t axis : axes) reduced[static_cast<size_t>(normalize_axis(axis, rank))] = true;
  return reduced;
}

// Folds `rows` rows, `step` apart, element by element into `width` results; four rows at a time where groups may be
// folded in float, which spares most of the conversions.
template <class Acc, class T, class Fold>
void fold_columns(const T* x, int64_t step, int64_t rows, int64_t width, const Fold& fold, Acc* results) {
  using Group = GroupType<Acc, T, Fold>;
  int64_t i = 0;
  if constexpr (!std::is_same_v<Group, Acc>) {
    for (; i + 4 <= rows; i += 4) {
      const T *a = x + i * step, *b = a + step, *c = b + step, *d = c + step;
      ANFORA_INDEPENDENT_ITERATIONS
      for (int64_t j = 0; j < width; ++j) {
        const Group group = fold(fold(fold(fold(Fold::template initial<Group>, a[j]), b[j]), c[j]), d[j]);
        results[j] = fold.combine(results[j], static_cast<Acc>(group));
      }
    }
  }
  for (; i < rows; ++i) {
    const T* row = x + i * step;
    ANFORA_INDEPENDENT_ITERATIONS
    for (int64_t j = 0; j < width; ++j) results[j] = fold(results[j], static_cast<Acc>(row[j]));
  }
}

// Folds the elements `first` to `last` of the reduced nest into results[i] for the kept points begin + i < end.
template <class Acc, class T, class Fold>
void fold_points(const T* x, const Split& split, const Fold& fold, int64_t first, int64_t last, int64_t begin,
                 int64_t end, Acc* results) {
  if (split.by_rows()) {
    const int64_t step = split.kept.run_stride(0);
    split.kept.for_each_run_in(begin, end, [&](const int64_t* kept, int64_t count) {
      for (int64_t i = 0; i < count; ++i, ++results) {
        const T* base = x + kept[0] + i * step;
        split.reduced.for_each_run_in(first, last, [&](const int64_t* at, int64_t n) {
          *results = fold.combine(*results, fold_row<Acc>(base + at[0], n, fold));
        });
      }
    });
    return;
  }
  constexpr int64_t kStrip = 1024;  // results that stay in the first-level cache
  const int64_t step = split.reduced.run_stride(0);
  split.kept.for_each_run_in(begin, end, [&](const int64_t* kept, int64_t count) {
    for (int64_t done = 0; done < count; done += kStrip) {
      const int64_t width = std::min(kStrip, count - done);
      const T* base = x + kept[0] + done;
      split.reduced.for_each_run_in(first, last, [&](const int64_t* at, int64_t n) {
        fold_columns(base + at[0], step, n, width, fold, results);
      });
      results += width;
    }
  });
}

// Into how many parts the reduced dimensions are cut.
int64_t count_parts(const Split& split) {
  constexpr int64_t kEnoughResults = 8, kColumnsOfAThread = 64, kElementsOfAPart = 65536, kMostParts = 8;
  const int64_t shares = split.by_rows() ? split.kept.size() : split.kept.size() / kColumnsOfAThread;
  if (shares >= kEnoughResults) return 1;
  return std::clamp<int64_t>(split.elements_each() * split.kept.size() / kElementsOfAPart, 1, kMostParts);
}

// One number for each kept point, first in the array.
template <class Acc, class T, class Fold>
std::span<Acc> fold_all(KernelContext& context, const T* x, const Split& split, const Fold& fold) {
  const int64_t kept = split.kept.size(), each = split.elements_each(), parts = count_parts(split);
  const std::span<Acc> results = context.workspace_of<Acc>(static_cast<size_t>(kept * parts), Fold::template initial<Acc>);
  if (each == 0 || kept == 0) return results;
  if (parts == 1) {
    const int64_t least = split.by_rows() ? 1 : 64;
    parallel_for(kept, std::max(least, kElementwiseGrain / each), [&](int64_t begin, int64_t end) {
      fold_points(x, split, fold, 0, each, begin, end, results.data() + begin);
    });
    return results;
  }
  parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      fold_points(x, split, fold, each * p / parts, each * (p + 1) / parts, 0, kept, results.data() + p * kept);
    }
  });
  for (int64_t p = 1; p < parts; ++p) {
    for (int64_t i = 0; i < kept; ++i) results[i] = fold.combine(results[i], results[p * kept + i]);
  }
  return results;
}

// Sums of integers are formed in u64, where they wrap around; products of floats, too, in double.
template <class T>
using SumType = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;

template <class T>
T finished(Reduction kind, SumType<T> sum, int64_t count) {
  using Signed = std::conditional_t<std::is_floating_point_v<T>, double, T>;
  const Signed value = static_cast<Signed>(sum);
  switch (kind) {
    case Reduction::Mean:
      if (!std::is_floating_point_v<T> && count == 0) return T{0};
      return static_cast<T>(value / static_cast<Signed>(count));
    case Reduction::L2: return static_cast<T>(std::sqrt(static_cast<double>(value)));
    case Reduction::LogSum: return static_cast<T>(std::log(static_cast<double>(value)));
    default: return static_cast<T>(value);
  }
}

template <class T, class Fold>
void reduce_to_sum(KernelContext& context, const Tensor& in, Tensor& out, const Split& split, Reduction kind, const Fold& fold) {
  const std::span<SumType<T>> sums = fold_all<SumType<T>>(context, in.data<T>().data(), split, fold);
  std::span<T> y = out.data<T>();
  for (size_t i = 0; i < y.size(); ++i) y[i] = finished<T>(kind, sums[i], split.elements_each());
}

template <class T>
void reduce_to_extremum(KernelContext& context, const Tensor& in, Tensor& out, const Split& split, Reduction kind) {
  const T* x = in.data<T>().data();
  const std::span<T> found =
      kind == Reduction::Max ? fold_all<T>(context, x, split, MaxFold{}) : fold_all<T>(context, x, split, MinFold{});
  std::copy_n(found.begin(), out.size(), out.data<T>().begin());
}

// |x| of integers, before the sum in u64.
struct SumMagnitudeFold : SumFold {
  template <class V>
  V operator()(V partial, V x) const {
    return partial + ((x >> 63) != 0 ? V{} - x : x);
  }
};

template <class T>
void reduce_wide(KernelContext& context, const Tensor& in, Tensor& out, const Split& split, Reduction kind) {
  switch (kind) {
    case Reduction::Product: return reduce_to_sum<T>(context, in, out, split, kind, ProductFold{});
    case Reduction::L2:
    case Reduction::SumSquare: return reduce_to_sum<T>(context, in, out, split, kind, SumSquareFold{});
    case Reduction::L1:
      if constexpr (std::is_floating_point_v<T>)
        return reduce_to_sum<T>(context, in, out, split, kind, SumAbsFold{});
      else if constexpr (std::is_signed_v<T>)
        return reduce_to_sum<T>(context, in, out, split, kind, SumMagnitudeFold{});
      else
        return reduce_to_sum<T>(context, in, out, split, kind, SumFold{});
    default: return reduce_to_sum<T>(context, in, out, split, kind, SumFold{});
  }
}

// The type that a reduction of `dtype` runs in. Logarithms of integers are rounded at the end.
DType reduction_dtype(DType dtype, Reduction kind) {
  if (kind == Reduction::LogSum && is_integer(dtype)) return DType::F64;
  if (is_float(dtype)) return dtype == DType::F64 ? DType::F64 : DType::F32;
  return dtype == DType::U64 ? DType::U64 : DType::I64;
}
// The same for those that only select, where 32 bits are enough for most integers.
DType extremum_dtype(DType dtype, Reduction kind) {
  const DType wide = reduction_dtype(dtype, kind);
  return wide == DType::I64 && dtype != DType::I64 && dtype != DType::U32 ? DType::I32 : wide;
}

// The extremum of nothing: infinity, or the limit of an integer type.
void fill_with_limit(KernelContext& context, Tensor& out, bool largest) {
  auto fill = [&]<class T>(T value) {
    Tensor filled = context.temporary(dtype_of<T>, out.shape());
    std::ranges::fill(filled.data<T>(), value);
    cast_into(filled, out);
  };
  const DType dtype = out.dtype();
  double value = 0;
  if (is_float(dtype)) {
    value = largest ? INFINITY : -INFINITY;
  } else if (dtype == DType::Bool) {
    value = largest;
  } else {
    const int value_bits = element_bits(dtype) - is_signed_integer(dtype);
    if (largest) return fill(~uint64_t{0} >> (64 - value_bits));
    value = is_signed_integer(dtype) ? -std::ldexp(1.0, value_bits) : 0;
  }
  fill(value);
}

void reduce_into(KernelContext& context, const Tensor& in, Tensor& out, const Split& split, Reduction kind) {
  const bool extremum = kind == Reduction::Max || kind == Reduction::Min;
  if (extremum && split.elements_each() == 0) return fill_with_limit(context, out, kind == Reduction::Min);
  const DType wide = extremum ? extremum_dtype(in.dtype(), kind) : reduction_dtype(in.dtype(), kind);
  const bool direct = wide == in.dtype();
  Tensor result = direct ? out : context.temporary(wide, out.shape());
  const Tensor values = cast_tensor(context, in, wide);
  if (extremum) {
    dispatch<TypeList<float, double, int32_t, int64_t, uint64_t>>(
        wide, [&]<class T>() { reduce_to_extremum<T>(context, values, result, split, kind); });
  } else {
    dispatch<TypeList<float, double, int64_t, uint64_t>>(
        wide, [&]<class T>() { reduce_wide<T>(context, values, result, split, kind); });
  }
  if (!direct) cast_into(result, out);
}

template <Reduction Kind>
void reduce(KernelContext& context) {
  const Tensor& in = context.input(0);
  const bool keepdims = context.attributes().get_int("keepdims", 1) != 0;
  const Split parts = split_axes(in.shape(), reduced_axes(context), keepdims);
  reduce_into(context, in, context.allocate_output(0, in.dtype(), parts.result), parts, Kind);
}

// log(sum(exp(x))) = m + log(sum(exp(x - m))) for the maximum m, or for 0 where the maximum is infinite.
struct FiniteOrZero {
  template <class T>
  T operator()(T x) const {
    return std::fabs(x) <= std::numeric_limits<T>::max() ? x : T{0};
  }
};
struct ShiftedExponential {
  template <class T>
  T operator()(T x, T shift) const {
    return kernels::exp(x - shift);
  }
};
struct LogPlusShift {
  template <class T>
  T operator()(T sum, T shift) const {
    return kernels::log(sum) + shift;
  }
};

template <class T>
void log_sum_exp(KernelContext& context, const Tensor& in, Tensor& out, const Split& split) {
  Tensor shift = context.temporary(in.dtype(), split.kept_as_ones);
  reduce_to_extremum<T>(context, in, shift, split, Reduction::Max);
  const FiniteOrZero clean;
  run_unary(unary_loop<T, T, FiniteOrZero>, &clean, shift, shift, kElementwiseGrain);
  Tensor terms = context.temporary(in.dtype(), in.shape());
  const ShiftedExponential exponential;
  run_binary(binary_loop<T, T, ShiftedExponential>, &exponential, in, shift, terms, kCostlyGrain);
  reduce_wide<T>(context, terms, out, split, Reduction::Sum);
  const LogPlusShift logarithm;
  run_binary(binary_loop<T, T, LogPlusShift>, &logarithm, out, shift.reshaped(out.shape()), out, kCostlyGrain);
}

void reduce_log_sum_exp(KernelContext& context) {
  const Tensor& in = context.input(0);
  const bool keepdims = context.attributes().get_int("keepdims", 1) != 0;
  const Split parts = split_axes(in.shape(), reduced_axes(context), keepdims);
  Tensor& out = context.allocate_output(0, in.dtype(), parts.result);
  // Of integers: rounded towards zero, as ONNX's operator sets below 28 have it.
  const DType wide = is_integer(in.dtype()) ? DType::F64 : compute_dtype(in.dtype());
  Tensor result = wide == in.dtype() ? out : context.temporary(wide, out.shape());
  dispatch<WideFloats>(wide, [&]<class T>() { log_sum_exp<T>(context, cast_tensor(context, in, wide), result, parts); });
  if (wide != in.dtype()) cast_into(result, out);
}

// ---- ArgMax, ArgMin ----

// Whether x takes the place of the best so far. NaN is better than any number, as in numpy.
template <bool Largest, bool Last>
struct Better {
  template <class T>
  bool operator()(T x, T best) const {
    const bool ahead = Largest ? x > best : x < best;
    if constexpr (Last)
      return ahead | (x == best) | (x != x);
    else
      return ahead | ((x != x) & (best == best));
  }
};

template <class T, class IsBetter>
void arg_columns(const T* x, const AxisView& view, int64_t begin, int64_t end, int64_t* indices) {
  constexpr int64_t kStrip = 64;
  for (int64_t at = begin; at < end;) {
    const int64_t outer = at / view.inner, column = at % view.inner;
    const int64_t width = std::min({kStrip, view.inner - column, end - at});
    const T* base = x + outer * view.length * view.inner + column;
    T best[kStrip];
    std::copy_n(base, width, best);
    int64_t* found = indices + at;
    std::fill_n(found, width, 0);
    for (int64_t k = 1; k < view.length; ++k) {
      const T* row = base + k * view.inner;
      for (int64_t j = 0; j < width; ++j) {
        const bool better = IsBetter{}(row[j], best[j]);
        best[j] = better ? row[j] : best[j];
        found[j] = better ? k : found[j];
      }
    }
    at += width;
  }
}

// A contiguous row: the extremum in SIMD lanes, then where it is.
template <class T, bool Largest>
int64_t arg_row(const T* x, int64_t n, bool last) {
  T extremum;
  if constexpr (Largest)
    extremum = fold_row<T>(x, n, MaxFold{});
  else
    extremum = fold_row<T>(x, n, MinFold{});
  auto is_it = [extremum](T value) { return value == extremum || (extremum != extremum && value != value); };
  if (!last) return std::find_if(x, x + n, is_it) - x;
  int64_t i = n - 1;
  while (!is_it(x[i])) --i;
  return i;
}

template <bool Largest>
void arg(KernelContext& context) {
  const Tensor& in = context.input(0);
  const AttributeSet& attributes = context.attributes();
  const int axis = normalize_axis(attributes.get_int("axis", 0), in.rank());
  const AxisView view(in.shape(), axis);
  Shape shape = in.shape();
  shape[axis] = 1;
  if (attributes.get_int("keepdims", 1) == 0) shape.erase(shape.begin() + axis);
  Tensor& out = context.allocate_output(0, DType::I64, shape);
  if (out.size() == 0) return;
  if (view.length == 0) refuse("the index of an extremum along an empty axis");
  const bool last = attributes.get_int("select_last_index", 0) != 0;
  const DType wide = reduction_dtype(in.dtype(), Reduction::Max);
  dispatch<TypeList<float, double, int64_t, uint64_t>>(wide, [&]<class T>() {
    const Tensor values = cast_tensor(context, in, wide);
    const T* x = values.data<T>().data();
    int64_t* indices = out.data<int64_t>().data();
    parallel_for(out.size(), std::max<int64_t>(1, kElementwiseGrain / view.length), [&](int64_t begin, int64_t end) {
      if (view.inner == 1) {
        for (int64_t i = begin; i < end; ++i) indices[i] = arg_row<T, Largest>(x + i * view.length, view.length, last);
        return;
      }
      if (last)
        arg_columns<T, Better<Largest, true>>(x, view, begin, end, indices);
      else
        arg_columns<T, Better<Largest, false>>(x, view, begin, end, indices);
    });
  });
}

}  // namespace

Tensor reduce_tensor(KernelContext& context, const Tensor& in, AxisFlags axes, Reduction kind) {
  const Split parts = split_axes(in.shape(), axes, true);
  Tensor out = context.temporary(in.dtype(), parts.result);
  reduce_into(context, in, out, parts, kind);
  return out;
}

void register_reduction(KernelRegistry& registry) {
  registry.add("ReduceSum", reduce<Reduction::Sum>);
  registry.add("ReduceMean", reduce<Reduction::Mean>);
  registry.add("ReduceProd", reduce<Reduction::Product>);
  registry.add("ReduceMax", reduce<Reduction::Max>);
  registry.add("ReduceMin", reduce<Reduction::Min>);
  registry.add("ReduceL1", reduce<Reduction::L1>);
  registry.add("ReduceL2", reduce<Reduction::L2>);
  registry.add("ReduceSumSquare", reduce<Reduction::SumSquare>);
  registry.add("ReduceLogSum", reduce<Reduction::LogSum>);
  registry.add("ReduceLogSumExp", reduce_log_sum_exp);
  registry.add("ArgMax", arg<true>);
  registry.add("ArgMin", arg<false>);
}

}  // namespace anfora::kernels
