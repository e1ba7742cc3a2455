// Operators about the order of elements: selection, deduplication, positions, running sums.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

void infer_top_k(InferenceContext& ctx) {
  require_scalar(ctx, 1);
  auto dims = ctx.dims(0);
  if (!dims) {
    ctx.set_unranked(0, ctx.dtype(0));
    return ctx.set_unranked(1, DType::I64);
  }
  const int axis = ctx.normalize_axis(ctx.attribute_int("axis"), static_cast<int>(dims->size()));
  auto k = ctx.elements(1);
  Dim count = k && k->size() == 1 ? (*k)[0] : ctx.fresh_dim();
  auto size = (*dims)[axis].as_constant();
  if (size && count.range().low > *size)
    ctx.fail(fmt::format("k is {}, axis {} has size {}", to_string(count), axis, *size));
  (*dims)[axis] = count;
  ctx.set_tensor(0, ctx.dtype(0), *dims);
  ctx.set_tensor(1, DType::I64, *dims);
}

void infer_unique(InferenceContext& ctx) {
  Dim kinds = ctx.fresh_dim(0);
  auto dims = ctx.dims(0);
  Dim items = ctx.unknown();
  if (!ctx.attributes().has("axis")) {
    if (dims) items = product(ctx, *dims);
    ctx.set_tensor(0, ctx.dtype(0), Dims{kinds});
  } else if (dims) {
    const int axis = ctx.normalize_axis(ctx.attributes().require_int("axis"), static_cast<int>(dims->size()));
    items = (*dims)[axis];
    (*dims)[axis] = kinds;
    ctx.set_tensor(0, ctx.dtype(0), *dims);
  } else {
    ctx.set_unranked(0, ctx.dtype(0));
  }
  ctx.set_tensor(1, DType::I64, Dims{kinds});
  ctx.set_tensor(2, DType::I64, Dims{items});
  ctx.set_tensor(3, DType::I64, Dims{kinds});
}

void infer_non_zero(InferenceContext& ctx) {
  auto rank = ctx.rank(0);
  ctx.set_tensor(0, DType::I64, Dims{rank ? ctx.dim(*rank) : ctx.unknown(), ctx.fresh_dim()});
}

void infer_running(InferenceContext& ctx) {
  require_scalar(ctx, 1);
  infer_same_type(ctx);
}

double sort_flops(const InferenceContext& ctx) {
  double elements = element_estimate(ctx.input(0));
  return elements * std::log2(std::max(elements, 2.0));
}

}  // namespace

void declare_ordering(Declarations& declare) {
  declare.op("TopK", 24)
      .doc("The K largest or smallest elements along an axis, sorted, and their indices; of equal ones the first.")
      .input("X", "T")
      .input("K", "i64")
      .output("Values", "T")
      .output("Indices", "i64")
      .type("T", kNumbers)
      .attribute("axis", -1)
      .attribute("largest", 1)
      .attribute("sorted", 1)
      .infer(infer_top_k)
      .flops(sort_flops)
      .axis().total();
  declare.op("Unique", 28)
      .doc("The distinct elements, or slices along an axis, with their first positions, the inverse map and counts.")
      .input("X", "T")
      .output("Y", "T")
      .optional_output("indices", "i64")
      .optional_output("inverse_indices", "i64")
      .optional_output("counts", "i64")
      .type("T", kPlainDTypes)
      .optional_attribute("axis", AttributeKind::Int)
      .attribute("sorted", 1)
      .infer(infer_unique)
      .flops(sort_flops);
  declare.op("NonZero", 13)
      .doc("The coordinates of the elements that are not zero, one column each.")
      .input("X", "T")
      .output("Y", "i64")
      .type("T", kPlainDTypes)
      .infer(infer_non_zero)
      .range(range_of_counts);
  const std::vector<DType> summable = kFloats | std::vector<DType>{DType::I32, DType::I64, DType::U32, DType::U64};
  declare.op("CumSum", 14)
      .doc("The running sum along an axis.")
      .input("x", "T")
      .input("axis", "T2")
      .output("y", "T")
      .type("T", summable)
      .type("T2", {DType::I32, DType::I64})
      .attribute("exclusive", 0)
      .attribute("reverse", 0)
      .infer(infer_running)
      .flops(flops_per_element<1>)
      .in_place()
      .widens().total();
  declare.op("CumProd", 26)
      .doc("The running product along an axis.")
      .input("x", "T")
      .input("axis", "T2")
      .output("y", "T")
      .type("T", summable)
      .type("T2", {DType::I32, DType::I64})
      .attribute("exclusive", 0)
      .attribute("reverse", 0)
      .infer(infer_running)
      .flops(flops_per_element<1>)
      .in_place();
}

}  // namespace anfora::ops
