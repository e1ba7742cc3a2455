#include "ops/infer_helpers.h"

#include <fmt/format.h>

#include <algorithm>

namespace anfora::ops {

void infer_same(InferenceContext& ctx) {
  ctx.set_output(0, ctx.input(0));
  if (auto elements = ctx.elements(0)) ctx.set_elements(0, *elements);
}

void infer_same_type(InferenceContext& ctx) { ctx.set_output(0, ctx.input(0)); }

// Whether b is min(a, c) for a c > 1. Such dimensions broadcast only where a is the smaller one: both are a.
static bool is_capped(Dim b, Dim a) {
  const ir::DimExpr& e = *b.expr();
  if (e.kind != ir::DimExpr::Kind::Min) return false;
  return (e.left == a.expr() && e.right->range.low > 1) || (e.right == a.expr() && e.left->range.low > 1);
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
  if (is_capped(b, a)) return a;
  if (is_capped(a, b)) return b;
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

Dim product(const InferenceContext& ctx, std::span<const Dim> dims) {
  Dim result = ctx.dim(1);
  // A constant 0 makes the product 0, whatever the others are.
  if (std::ranges::any_of(dims, [](Dim d) { return d.as_constant() == 0; })) return ctx.dim(0);
  for (Dim d : dims) result = result * d;
  return result;
}

Dim merge_dim(const InferenceContext& ctx, Dim a, Dim b) {
  if (a.is_unknown()) return b;
  if (b.is_unknown() || a == b) return a;
  if (provably_different(a, b)) {
    ctx.fail(fmt::format("dimensions {} and {} should be the same", to_string(a), to_string(b)));
  }
  return b.is_constant() ? b : a;
}

Dims merge_dims(const InferenceContext& ctx, std::span<const Dim> a, std::span<const Dim> b) {
  if (a.size() != b.size()) ctx.fail(fmt::format("ranks {} and {} should be the same", a.size(), b.size()));
  Dims result;
  for (size_t i = 0; i < a.size(); ++i) result.push_back(merge_dim(ctx, a[i], b[i]));
  return result;
}

Dims matmul_dims(const InferenceContext& ctx, std::span<const Dim> a, std::span<const Dim> b) {
  if (a.empty() || b.empty()) ctx.fail("a matrix product of a scalar");
  const Dim inner_a = a.back(), inner_b = b.size() == 1 ? b[0] : b[b.size() - 2];
  if (provably_different(inner_a, inner_b)) {
    ctx.fail(fmt::format("the inner dimensions are {} and {}", to_string(inner_a), to_string(inner_b)));
  }
  auto batch = [](std::span<const Dim> dims) { return dims.first(dims.size() - std::min<size_t>(dims.size(), 2)); };
  Dims result = broadcast_dims(ctx, batch(a), batch(b));
  if (a.size() > 1) result.push_back(a[a.size() - 2]);
  if (b.size() > 1) result.push_back(b.back());
  return result;
}

std::optional<int> vector_length(const InferenceContext& ctx, size_t i) {
  auto dims = ctx.dims(i);
  if (!dims) return std::nullopt;
  if (dims->size() > 1) ctx.fail(fmt::format("input {} is to be a vector, it has rank {}", i, dims->size()));
  if (dims->empty()) return 1;
  auto length = (*dims)[0].as_constant();
  return length && *length >= 0 && *length < 64 ? std::optional(static_cast<int>(*length)) : std::nullopt;
}

void set_tensor_of_shape(InferenceContext& ctx, size_t output, DType dtype, size_t shape_input) {
  if (auto elements = ctx.elements(shape_input)) {
    return ctx.set_tensor(output, dtype, *elements);
  }
  if (auto length = vector_length(ctx, shape_input)) {
    return ctx.set_tensor(output, dtype, Dims(static_cast<size_t>(*length), ctx.unknown()));
  }
  ctx.set_unranked(output, dtype);
}

void require_rank(const InferenceContext& ctx, size_t i, int rank) {
  auto given = ctx.rank(i);
  if (given && *given != rank) ctx.fail(fmt::format("input {} has rank {} instead of {}", i, *given, rank));
}

void infer_broadcast_to_first(InferenceContext& ctx) {
  infer_same_type(ctx);
  const auto first = ctx.dims(0);
  if (!first) return;
  for (size_t i = 1; i < ctx.num_inputs(); ++i) {
    const Dims dims = ctx.dims(i).value_or(Dims());
    bool fits = dims.size() <= first->size();
    for (size_t axis = 0; fits && axis < dims.size(); ++axis) {
      const Dim to = (*first)[first->size() - dims.size() + axis];
      fits = !provably_different(dims[axis], to) || !provably_different(dims[axis], ctx.dim(1));
    }
    if (!fits) ctx.fail(fmt::format("input {} of type {} does not broadcast to {}", i, ir::to_string(ctx.input(i)), ir::to_string(ctx.input(0))));
  }
}

void require_scalar(const InferenceContext& ctx, size_t i) {
  for (Dim d : ctx.dims(i).value_or(Dims{})) {
    if (!provably_different(d, ctx.dim(1))) continue;
    ctx.fail(fmt::format("input {} is to be a scalar, it has type {}", i, ir::to_string(ctx.input(i))));
  }
}

const Type* join_types(InferenceContext& ctx, const Type* a, const Type* b) {
  if (a == b) return a;
  const bool are_sequences = a->kind() == ir::TypeKind::Sequence && b->kind() == ir::TypeKind::Sequence;
  if (are_sequences) return ctx.context().sequence_type(join_types(ctx, a->element(), b->element()));
  if (!a->is_tensor() || !b->is_tensor()) return a;
  DType dtype = a->dtype() == b->dtype() ? a->dtype() : DType::Undefined;
  if (!a->has_rank() || !b->has_rank() || a->rank() != b->rank()) return ctx.context().unranked_type(dtype);
  Dims dims;
  for (int d = 0; d < a->rank(); ++d) {
    dims.push_back(provably_equal(a->dim(d), b->dim(d)) ? a->dim(d) : ctx.unknown());
  }
  return ctx.context().tensor_type(dtype, std::span<const Dim>(dims.data(), dims.size()));
}

DType dtype_attribute(const InferenceContext& ctx, std::string_view attribute, DType otherwise) {
  int64_t number = ctx.attributes().get_int(attribute, static_cast<int64_t>(otherwise));
  if (number < 0 || number >= kDTypeCount)
    ctx.fail(fmt::format("{} is {}, which is no element type", attribute, number));
  return static_cast<DType>(number);
}

double element_estimate(const Type* type) {
  if (!type || !type->is_tensor() || !type->has_rank()) return 0;
  double count = 1;
  for (Dim dim : type->dims()) count *= static_cast<double>(dim.as_constant().value_or(1));
  return count;
}

Declaration unary(Declarations& declare, const char* name, int since, const char* doc, std::vector<DType> dtypes) {
  return declare.op(name, since)
      .doc(doc)
      .input("X", "T")
      .output("Y", "T")
      .type("T", std::move(dtypes))
      .infer(infer_same_type)
      .flops(flops_per_element<1>)
      .fusion(FusionKind::Elementwise)
      .in_place();
}

}  // namespace anfora::ops
