// Products and convolutions; products.ir says what the operators mean.
#include <algorithm>

#include "dialects/microsoft/declare.h"
#include "ops/infer_window.h"

namespace anfora::ops {
namespace {

using enum DType;

// A row-major matrix of N rows of K numbers, in blocks.
void infer_matmul_nbits(InferenceContext& ctx) {
  auto a = ctx.dims(0);
  if (!a || a->empty()) return ctx.set_unranked(0, ctx.dtype(0));
  a->back() = ctx.dim(ctx.attribute_int("N"));
  ctx.set_tensor(0, ctx.dtype(0), *a);
}

// transBatch moves the first dimension behind the batch, trans swaps the last two of what comes out.
Dims transposed(Dims dims, bool batch, bool last) {
  if (dims.size() > 1 && batch) std::rotate(dims.begin(), dims.begin() + 1, dims.end() - 1);
  if (dims.size() > 1 && last) std::swap(dims[dims.size() - 2], dims.back());
  return dims;
}

void set_transposed_matmul(InferenceContext& ctx, bool batch_a, bool batch_b) {
  auto a = ctx.dims(0), b = ctx.dims(1);
  if (!a || !b) return ctx.set_unranked(0, ctx.dtype(0));
  ctx.set_tensor(0, ctx.dtype(0),
                 matmul_dims(ctx, transposed(*a, batch_a, ctx.attribute_int("transA") != 0),
                             transposed(*b, batch_b, ctx.attribute_int("transB") != 0)));
}
void infer_fused_matmul(InferenceContext& ctx) {
  set_transposed_matmul(ctx, ctx.attribute_int("transBatchA") != 0, ctx.attribute_int("transBatchB") != 0);
}
void infer_transpose_matmul(InferenceContext& ctx) { set_transposed_matmul(ctx, false, false); }

// Twice the output times the inner dimension.
double fused_matmul_flops(const InferenceContext& ctx) {
  auto a = ctx.dims(0);
  if (!a || a->size() < 2) return 0;
  const Dim inner = (*a)[a->size() - (ctx.attribute_int("transA") != 0 ? 2 : 1)];
  return 2 * element_estimate(ctx.output(0)) * static_cast<double>(inner.as_constant().value_or(1));
}

void infer_fused_gemm(InferenceContext& ctx) {
  auto a = ctx.dims(0), b = ctx.dims(1);
  if (!a || !b || a->size() != 2 || b->size() != 2) return ctx.set_unranked(0, ctx.dtype(0));
  ctx.set_tensor(0, ctx.dtype(0),
                 Dims{(*a)[ctx.attribute_int("transA") ? 1 : 0], (*b)[ctx.attribute_int("transB") ? 0 : 1]});
}

}  // namespace

void declare_microsoft_products(Declarations& declare) {
  contrib(declare, "FusedMatMul", "alpha · A · B, each transposed as the attributes say.")
      .input("A", "T")
      .input("B", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .attribute("alpha", 1.0f)
      .attribute("transA", 0)
      .attribute("transB", 0)
      .attribute("transBatchA", 0)
      .attribute("transBatchB", 0)
      .infer(infer_fused_matmul)
      .flops(fused_matmul_flops);
  contrib(declare, "TransposeMatMul", "alpha · A · B, the last axes of each transposed as the attributes say.")
      .input("A", "T")
      .input("B", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .attribute("alpha", 1.0f)
      .attribute("transA", 0)
      .attribute("transB", 0)
      .infer(infer_transpose_matmul);
  contrib(declare, "FusedGemm", "Gemm, and an activation.")
      .input("A", "T")
      .input("B", "T")
      .optional_input("C", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .attribute("alpha", 1.0f)
      .attribute("beta", 1.0f)
      .attribute("transA", 0)
      .attribute("transB", 0)
      .attribute("activation", "")
      .optional_attribute("activation_alpha", AttributeKind::Float)
      .optional_attribute("activation_beta", AttributeKind::Float)
      .optional_attribute("activation_gamma", AttributeKind::Float)
      .infer(infer_fused_gemm);
  contrib(declare, "FusedConv", "Conv, the sum with Z, and an activation.")
      .input("X", "T")
      .input("W", "T")
      .optional_input("B", "T")
      .optional_input("Z", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .attribute("activation", "")
      .attribute("auto_pad", "NOTSET")
      .attribute("group", 1)
      .optional_attribute("activation_params", AttributeKind::Floats)
      .optional_attribute("dilations", AttributeKind::Ints)
      .optional_attribute("kernel_shape", AttributeKind::Ints)
      .optional_attribute("pads", AttributeKind::Ints)
      .optional_attribute("strides", AttributeKind::Ints)
      .infer(infer_convolution)
      .flops(convolution_flops);
  contrib(declare, "MatMulNBits", "A · Bᵀ, where B is N rows of K numbers of a few bits, with a scale for each block.")
      .input("A", "T")
      .input("B", "u8")
      .input("scales", "T")
      .optional_input("zero_points", "Z")
      .optional_input("g_idx", "i32")
      .optional_input("bias", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .type("Z", kFloats | std::vector{U8})
      .required_attribute("K", AttributeKind::Int)
      .required_attribute("N", AttributeKind::Int)
      .required_attribute("block_size", AttributeKind::Int)
      .attribute("bits", 4)
      .attribute("accuracy_level", 0)
      .attribute("weight_prepacked", 0)
      .infer(infer_matmul_nbits);
  contrib(declare, "MatMulBnb4", "A · Bᵀ, where B is N rows of K numbers of 4 bits in bitsandbytes' tables FP4 or NF4, one behind the other, "
                                 "with the largest absolute value of each block.")
      .input("A", "T")
      .input("B", "u8")
      .input("absmax", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .required_attribute("K", AttributeKind::Int)
      .required_attribute("N", AttributeKind::Int)
      .required_attribute("block_size", AttributeKind::Int)
      .required_attribute("quant_type", AttributeKind::Int)
      .attribute("training_mode", 0)
      .attribute("transB", 1)
      .infer(infer_matmul_nbits)
      .means(R"(
graph @MatMulBnb4(%a, %b, %absmax) {
  %table = if Equal($quant_type, 0) {
      return f32[16] [0.0, 0.005208333333, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25,
                      -0.0, -0.005208333333, -0.66666667, -1.0, -0.33333333, -0.5, -0.16666667, -0.25]
    } else if Equal($quant_type, 1) {
      return f32[16] [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
                      -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
                      0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]
    } else { return unreachable "the table is FP4 or NF4" }
  %pairs = Reshape(%b, [-1, 1])
  %first = BitShift(%pairs, CastLike(4, %b)){direction="RIGHT"}
  %second = BitwiseAnd(%pairs, CastLike(15, %b))
  %places = Cast(Reshape(Concat(%first, %second){axis=1}, [-1])){to=6}
  %scales = Reshape(Expand(Reshape(%absmax, [-1, 1]), Concat([1], call @vector($block_size)){axis=0}), [-1])
  %count = call @vector(Mul($N, $K))
  %numbers = Mul(Slice(Gather(CastLike(%table, %a), %places), [0], %count), Slice(%scales, [0], %count))
  %rows = Reshape(%numbers, Concat(call @vector($N), call @vector($K)){axis=0})
  return if call @is_true($transB) { return MatMul(%a, Transpose(%rows){perm=[1, 0]}) }
    else { return unreachable "the weights are not rows" }
})");
}

}  // namespace anfora::ops
