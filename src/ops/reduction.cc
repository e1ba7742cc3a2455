#include <algorithm>

#include "ops/infer_helpers.h"
#include "ops/layouts.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

// The shape that is left when `reduced(axis)` axes go, or become 1 with keepdims.
template <class Reduced>
Dims reduced_dims(const InferenceContext& ctx, const Dims& dims, Reduced&& reduced) {
  const bool keep = ctx.attribute_int("keepdims") != 0;
  Dims result;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!reduced(i))
      result.push_back(dims[i]);
    else if (keep)
      result.push_back(ctx.dim(1));
  }
  return result;
}

void infer_reduce(InferenceContext& ctx) {
  auto dims = ctx.dims(0);
  if (!dims) return ctx.set_unranked(0, ctx.dtype(0));
  const int rank = static_cast<int>(dims->size());
  std::optional<std::vector<int64_t>> axes;
  if (ctx.has_input(1)) {
    axes = ctx.constant_integers(1);
  } else {
    axes.emplace();
  }
  if (!axes) {
    // Which axes go is not known; how many may be.
    auto count = vector_length(ctx, 1);
    if (ctx.attribute_int("keepdims") != 0) return ctx.set_tensor(0, ctx.dtype(0), Dims(dims->size(), ctx.unknown()));
    if (!count || *count == 0 || *count > rank) return ctx.set_unranked(0, ctx.dtype(0));
    return ctx.set_tensor(0, ctx.dtype(0), Dims(static_cast<size_t>(rank - *count), ctx.unknown()));
  }
  if (axes->empty() && ctx.attribute_int("noop_with_empty_axes") != 0) return infer_same_type(ctx);
  for (int64_t& axis : *axes) axis = ctx.normalize_axis(axis, rank);
  Dims result = reduced_dims(
      ctx, *dims, [&](size_t i) { return axes->empty() || std::ranges::count(*axes, static_cast<int64_t>(i)) > 0; });
  ctx.set_tensor(0, ctx.dtype(0), {result.data(), result.size()});
}

// The same; the product, sum or extremum of a tracked vector is computed, as in Size = ReduceProd(Shape(x)).
template <Dim (*Function)(Dim, Dim)>
void infer_tracked_reduce(InferenceContext& ctx) {
  infer_reduce(ctx);
  auto elements = ctx.elements(0);
  if (!elements || elements->empty() || ctx.rank(0) != 1) return;
  if (ctx.attribute_int("noop_with_empty_axes") != 0) return;
  Dim result = elements->front();
  for (size_t i = 1; i < elements->size(); ++i) result = Function(result, (*elements)[i]);
  ctx.set_elements(0, Dims{result});
}

Dim added(Dim a, Dim b) { return a + b; }
Dim times(Dim a, Dim b) { return a * b; }

void infer_arg(InferenceContext& ctx) {
  auto dims = ctx.dims(0);
  if (!dims) return ctx.set_unranked(0, DType::I64);
  const size_t axis =
      static_cast<size_t>(ctx.normalize_axis(ctx.attribute_int("axis"), static_cast<int>(dims->size())));
  Dims result = reduced_dims(ctx, *dims, [&](size_t i) { return i == axis; });
  ctx.set_tensor(0, DType::I64, {result.data(), result.size()});
}

Declaration reduce(Declarations& declare, const char* name, int since, const char* doc, std::vector<DType> dtypes,
                   Reduces reduces) {
  return declare.op(name, since)
      .doc(doc)
      .input("data", "T")
      .optional_input("axes", "i64")
      .output("reduced", "T")
      .type("T", std::move(dtypes))
      .attribute("keepdims", 1)
      .attribute("noop_with_empty_axes", 0)
      .infer(infer_reduce)
      .flops(flops_per_input_element<1>)
      .fusion(FusionKind::Reduction)
      .reduces(reduces);
}

Declaration arg(Declarations& declare, const char* name, const char* doc) {
  return declare.op(name, 13)
      .doc(doc)
      .input("data", "T")
      .output("reduced", "i64")
      .type("T", kNumbers)
      .attribute("axis", 0)
      .attribute("keepdims", 1)
      .attribute("select_last_index", 0)
      .infer(infer_arg)
      .flops(flops_per_input_element<1>)
      .fusion(FusionKind::Reduction);
}

}  // namespace

void declare_reduction(Declarations& declare) {
  const std::vector<DType> wide = kFloats | std::vector{DType::I32, DType::I64, DType::U32, DType::U64};
  const std::vector<DType> ordered = wide | std::vector{DType::I8, DType::U8, DType::Bool};
  reduce(declare, "ReduceSum", 13, "The sum along the axes.", wide, Reduces::Zeros).infer(infer_tracked_reduce<added>)
      .layout(channels_last_reduction).sums().range(range_of_reduced_sum).total().odd().scales();
  reduce(declare, "ReduceMean", 18, "The mean along the axes.", wide, Reduces::Order)
      .layout(channels_last_reduction).sums().range(range_of_mean).odd().scales();
  reduce(declare, "ReduceProd", 18, "The product along the axes.", wide, Reduces::Order).infer(infer_tracked_reduce<times>)
      .total();
  reduce(declare, "ReduceMax", 20, "The largest element along the axes; NaN if any is NaN.", ordered, Reduces::Repeats)
      .infer(infer_tracked_reduce<ir::max>)
      .layout(channels_last_reduction).range(range_of_largest).mirror("ReduceMin").scales();
  reduce(declare, "ReduceMin", 20, "The smallest element along the axes; NaN if any is NaN.", ordered, Reduces::Repeats)
      .infer(infer_tracked_reduce<ir::min>)
      .layout(channels_last_reduction).range(range_of_smallest).mirror("ReduceMax").scales();
  reduce(declare, "ReduceL1", 18, "The sum of absolute values along the axes.", wide, Reduces::Zeros).flops(flops_per_input_element<2>)
      .range(range_of_magnitudes).total();
  reduce(declare, "ReduceL2", 18, "The square root of the sum of squares along the axes.", wide, Reduces::Zeros)
      .flops(flops_per_input_element<2>)
      .range(range_of_magnitudes).total();
  reduce(declare, "ReduceSumSquare", 18, "The sum of squares along the axes.", wide, Reduces::Zeros).flops(flops_per_input_element<2>)
      .range(range_of_magnitudes).total();
  // Operator sets below 28 have the next two of integers as well, rounded towards zero.
  reduce(declare, "ReduceLogSum", 28, "The logarithm of the sum along the axes.", wide, Reduces::Zeros);
  reduce(declare, "ReduceLogSumExp", 28, "The logarithm of the sum of exponentials along the axes.", wide, Reduces::Order)
      .flops(flops_per_input_element<15>)
      .total();
  arg(declare, "ArgMax", "Where the largest element along the axis is: the first one, or the last.")
      .axis().range(range_of_counts);
  arg(declare, "ArgMin", "Where the smallest element along the axis is: the first one, or the last.")
      .axis().range(range_of_counts);
}

}  // namespace anfora::ops
