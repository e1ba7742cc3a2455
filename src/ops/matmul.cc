#include <fmt/format.h>

#include <algorithm>

#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

void infer_matmul(InferenceContext& ctx) {
  auto a = ctx.dims(0), b = ctx.dims(1);
  if (!a || !b) return ctx.set_unranked(0, ctx.dtype(0));
  ctx.set_tensor(0, ctx.dtype(0), matmul_dims(ctx, *a, *b));
}

// Twice the output times the inner dimension.
double matmul_flops(const InferenceContext& ctx) {
  auto a = ctx.dims(0);
  if (!a || a->empty()) return 0;
  Dim inner = a->back();
  return 2 * element_estimate(ctx.output(0)) * static_cast<double>(inner.is_constant() ? inner.constant() : 1);
}

void infer_gemm(InferenceContext& ctx) {
  require_rank(ctx, 0, 2);
  require_rank(ctx, 1, 2);
  auto a = ctx.dims(0), b = ctx.dims(1);
  size_t transpose_a = ctx.attribute_int("transA") != 0, transpose_b = ctx.attribute_int("transB") != 0;
  Dim unknown = ctx.unknown();
  Dims result{a ? (*a)[transpose_a] : unknown, b ? (*b)[1 - transpose_b] : unknown};
  if (a && b) {
    Dim left = (*a)[1 - transpose_a], right = (*b)[transpose_b];
    if (provably_different(left, right)) {
      ctx.fail(fmt::format("the inner dimensions are {} and {}", to_string(left), to_string(right)));
    }
  }
  if (auto c = ctx.dims(2)) {
    if (c->size() > 2) ctx.fail(fmt::format("the third input has rank {}", c->size()));
    for (size_t i = 0; i < c->size(); ++i) {
      Dim extent = (*c)[c->size() - 1 - i], target = result[1 - i];
      if (provably_different(extent, target) && provably_different(extent, ctx.dim(1))) {
        ctx.fail(fmt::format("a dimension of {} does not broadcast to {}", to_string(extent), to_string(target)));
      }
    }
  }
  ctx.set_tensor(0, ctx.dtype(0), result);
}

// The product, and the addend.
double gemm_flops(const InferenceContext& ctx) {
  auto a = ctx.dims(0);
  if (!a) return 0;
  const double inner = static_cast<double>((*a)[ctx.attribute_int("transA") != 0 ? 0 : 1].as_constant().value_or(1));
  const double result = element_estimate(ctx.output(0));
  double count = 2 * result * inner;
  // A factor goes with whatever is smallest.
  if (ctx.attribute_float("alpha") != 1) {
    count += std::min({result, element_estimate(ctx.input(0)), element_estimate(ctx.input(1))});
  }
  if (!ctx.has_input(2)) return count;
  return count + result + (ctx.attribute_float("beta") == 1 ? 0 : element_estimate(ctx.input(2)));
}

}  // namespace

void declare_matmul(Declarations& declare) {
  const std::vector<DType> numbers = kFloats | std::vector{DType::I32, DType::I64, DType::U32, DType::U64};
  declare.op("MatMul", 13)
      .doc(
          "The matrix product of the last two dimensions; those before broadcast. A vector is a row on the left, a "
          "column on the right.")
      .input("A", "T")
      .input("B", "T")
      .output("Y", "T")
      .type("T", numbers)
      .infer(infer_matmul)
      .flops(matmul_flops)
      .fusion(FusionKind::Anchor)
      .range(range_of_matmul);
  declare.op("Gemm", 13)
      .doc("alpha · A · B + beta · C, where A and B may be transposed and C broadcasts.")
      .input("A", "T")
      .input("B", "T")
      .optional_input("C", "T")
      .output("Y", "T")
      .type("T", numbers)
      .attribute("alpha", 1.0f)
      .attribute("beta", 1.0f)
      .attribute("transA", 0)
      .attribute("transB", 0)
      .infer(infer_gemm)
      .flops(gemm_flops)
      .fusion(FusionKind::Anchor);
}

}  // namespace anfora::ops
