#include "ops/infer_helpers.h"

#include <fmt/format.h>

#include <algorithm>

namespace anfora::ops {

void infer_same(InferenceContext& ctx) {
  ctx.set_output(0, ctx.input(0));
  if (auto elements = ctx.elements(0)) ctx.set_elements(0, *elements);
}

Dim broadcast_dim(const InferenceContext& ctx, Dim a, Dim b) {
  if (provably_equal(a, b)) return a;
  if (a.as_constant() == 1) return b;
  if (b.as_constant() == 1) return a;
  if (a.is_constant() && b.is_constant()) {
    ctx.fail(fmt::format("dimensions {} and {} do not broadcast", a.constant(), b.constant()));
  }
  // A dimension that is not 1 wins: the other one must be 1 or equal to it.
  if (a.is_constant() || a.range().low > 1) return a;
  if (b.is_constant() || b.range().low > 1) return b;
  return ctx.unknown();
}

Dims broadcast_dims(const InferenceContext& ctx, std::span<const Dim> a, std::span<const Dim> b) {
  if (a.size() < b.size()) std::swap(a, b);
  Dims result(a.begin(), a.end());
  const size_t lead = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) result[lead + i] = broadcast_dim(ctx, a[lead + i], b[i]);
  return result;
}

void set_broadcast(InferenceContext& ctx, DType dtype, size_t first, size_t last) {
  Dims dims;
  for (size_t i = first; i < last; ++i) {
    auto next = ctx.dims(i);
    if (!next) return ctx.set_unranked(0, dtype);
    dims = i == first ? *next : broadcast_dims(ctx, {dims.data(), dims.size()}, {next->data(), next->size()});
  }
  ctx.set_tensor(0, dtype, {dims.data(), dims.size()});
}

void infer_broadcast(InferenceContext& ctx) { set_broadcast(ctx, ctx.dtype(0), 0, ctx.num_inputs()); }

void combine_elements(InferenceContext& ctx, ElementFunction f) {
  auto a = ctx.elements(0), b = ctx.elements(1);
  if (!a || !b || a->empty() || b->empty()) return;
  if (a->size() != b->size() && a->size() != 1 && b->size() != 1) return;
  Dims result;
  for (size_t i = 0; i < std::max(a->size(), b->size()); ++i) {
    Dim x = (*a)[a->size() == 1 ? 0 : i], y = (*b)[b->size() == 1 ? 0 : i];
    result.push_back(x.is_unknown() || y.is_unknown() ? ctx.unknown() : f(ctx, x, y));
  }
  ctx.set_elements(0, std::move(result));
}

double element_estimate(const Type* type) {
  if (!type || !type->is_tensor() || !type->has_rank()) return 0;
  double count = 1;
  for (Dim dim : type->dims()) count *= static_cast<double>(dim.as_constant().value_or(1));
  return count;
}

}  // namespace anfora::ops
