#include <fmt/format.h>

#include "ops/infer_window.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

using enum DType;

void set_shape_of_input(InferenceContext& ctx, DType dtype) {
  if (auto dims = ctx.dims(0))
    ctx.set_tensor(0, dtype, {dims->data(), dims->size()});
  else
    ctx.set_unranked(0, dtype);
}

// A scale is a scalar, a vector along the axis, or (blocked) of the data's rank.
void check_scale(const InferenceContext& ctx) {
  auto rank = ctx.rank(0), scale_rank = ctx.rank(1);
  if (!rank || !scale_rank || *scale_rank == 0 || *rank == 0) return;
  const int64_t block = ctx.attribute_int("block_size");
  if (block < 0) ctx.fail(fmt::format("block_size is {}", block));
  if (block > 0 && *scale_rank != *rank) {
    ctx.fail(fmt::format("blocked quantization of rank {} with a scale of rank {}", *rank, *scale_rank));
  }
  if (block == 0 && *scale_rank > 1)
    ctx.fail(fmt::format("the scale has rank {} and there is no block_size", *scale_rank));
}

void infer_quantize(InferenceContext& ctx) {
  check_scale(ctx);
  DType dtype = dtype_attribute(ctx, "output_dtype", Undefined);
  if (ctx.has_input(2)) {
    if (dtype != Undefined && ctx.dtype(2) != Undefined && dtype != ctx.dtype(2)) {
      ctx.fail(fmt::format("output_dtype is {}, the zero point {}", name(dtype), name(ctx.dtype(2))));
    }
    if (ctx.dtype(2) != Undefined) dtype = ctx.dtype(2);
  } else if (dtype == Undefined) {
    dtype = U8;
  }
  set_shape_of_input(ctx, dtype);
}

void infer_dequantize(InferenceContext& ctx) {
  check_scale(ctx);
  const DType asked = dtype_attribute(ctx, "output_dtype", Undefined);
  set_shape_of_input(ctx, asked == Undefined ? ctx.dtype(1) : asked);
}

void infer_dynamic_quantize(InferenceContext& ctx) {
  set_shape_of_input(ctx, U8);
  ctx.set_tensor(1, F32, Dims{});
  ctx.set_tensor(2, U8, Dims{});
}

void set_matmul(InferenceContext& ctx, size_t a, size_t b, DType dtype) {
  auto left = ctx.dims(a), right = ctx.dims(b);
  if (!left || !right) return ctx.set_unranked(0, dtype);
  Dims dims = matmul_dims(ctx, {left->data(), left->size()}, {right->data(), right->size()});
  ctx.set_tensor(0, dtype, {dims.data(), dims.size()});
}

void infer_matmul_integer(InferenceContext& ctx) { set_matmul(ctx, 0, 1, I32); }
void infer_qlinear_matmul(InferenceContext& ctx) { set_matmul(ctx, 0, 3, ctx.dtype(7)); }

// A convolution of input 0 with the weights, input `W`; `dtype` of the sums or of the requantized result.
template <size_t W>
void set_convolution(InferenceContext& ctx, DType dtype) {
  auto x = ctx.dims(0), w = ctx.dims(W);
  if (x && w && x->size() != w->size()) {
    ctx.fail(fmt::format("the input has rank {}, the weights have {}", x->size(), w->size()));
  }
  if (!x && !w) return ctx.set_unranked(0, dtype);
  const size_t rank = x ? x->size() : w->size();
  if (rank < 3) ctx.fail(fmt::format("a convolution of rank {} has no spatial dimension", rank));
  if (!x) x = Dims(rank, ctx.unknown());
  if (w) {
    const Dim channels = (*w)[1] * ctx.attribute_int("group");
    if (provably_different((*x)[1], channels)) {
      ctx.fail(
          fmt::format("the input has {} channels, the weights are for {}", to_string((*x)[1]), to_string(channels)));
    }
  }
  Dims result{(*x)[0], w ? (*w)[0] : ctx.unknown()};
  append_window_dims(ctx, result, std::span(*x).subspan(2), window_of(ctx, rank, w));
  ctx.set_tensor(0, dtype, result);
}

void infer_conv_integer(InferenceContext& ctx) { set_convolution<1>(ctx, I32); }
void infer_qlinear_conv(InferenceContext& ctx) { set_convolution<3>(ctx, ctx.dtype(7)); }

template <size_t W>
double convolution_flops(const InferenceContext& ctx) {
  auto w = ctx.dims(W);
  const double filters = w ? static_cast<double>((*w)[0].as_constant().value_or(1)) : 1;
  return filters > 0 ? 2 * element_estimate(ctx.output(0)) * element_estimate(ctx.input(W)) / filters : 0;
}

Declaration with_window(Declaration declaration) {
  return declaration.attribute("auto_pad", "NOTSET")
      .attribute("group", 1)
      .optional_attribute("dilations", AttributeKind::Ints)
      .optional_attribute("kernel_shape", AttributeKind::Ints)
      .optional_attribute("pads", AttributeKind::Ints)
      .optional_attribute("strides", AttributeKind::Ints)
      .fusion(FusionKind::Anchor);
}

template <size_t A>
double integer_matmul_flops(const InferenceContext& ctx) {
  auto dims = ctx.dims(A);
  if (!dims || dims->empty()) return 0;
  return 2 * element_estimate(ctx.output(0)) * static_cast<double>(dims->back().as_constant().value_or(1));
}

}  // namespace

void declare_quantization(Declarations& declare) {
  const std::vector<DType> bytes = {I8, U8};
  const std::vector<DType> quantized = std::vector{I8, U8, I16, U16, I4, U4, I2, U2, F4E2M1, F6E2M3, F6E3M2} | kFloat8s;
  const std::vector<DType> scales = {F32, F16, BF16, F8E8M0};
  declare.op("QuantizeLinear", 28)
      .doc("saturate(round(x / y_scale) + y_zero_point), by tensor, by axis or by block.")
      .input("x", "T1")
      .input("y_scale", "T2")
      .optional_input("y_zero_point", "T3")
      .output("y", "T3")
      .type("T1", {F32, F16, BF16, I32})
      .type("T2", scales | std::vector{I32})
      .type("T3", quantized)
      .attribute("axis", 1)
      .attribute("saturate", 1)
      .attribute("block_size", 0)
      .attribute("output_dtype", 0)
      .attribute("precision", 0)
      .infer(infer_quantize)
      .flops(flops_per_element<4>)
      .fusion(FusionKind::Elementwise)
      .widens(false);
  declare.op("DequantizeLinear", 28)
      .doc("(x − x_zero_point) · x_scale, by tensor, by axis or by block.")
      .input("x", "T1")
      .input("x_scale", "T2")
      .optional_input("x_zero_point", "T1")
      .output("y", "T3")
      .type("T1", quantized | std::vector{I32})
      .type("T2", scales)
      .type("T3", {F32, F16, BF16})
      .attribute("axis", 1)
      .attribute("block_size", 0)
      .attribute("output_dtype", 0)
      .infer(infer_dequantize)
      .flops(flops_per_element<2>)
      .fusion(FusionKind::Elementwise)
      .widens(false);
  declare.op("DynamicQuantizeLinear", 11)
      .doc("x quantized to u8 with the scale and zero point that its own range gives.")
      .input("x", "T1")
      .output("y", "T2")
      .output("y_scale", "f32")
      .output("y_zero_point", "T2")
      .type("T1", {F32})
      .type("T2", {U8})
      .infer(infer_dynamic_quantize)
      .flops(flops_per_element<6>);
  declare.op("MatMulInteger", 10)
      .doc("(A − a_zero_point)(B − b_zero_point) in i32.")
      .input("A", "T1")
      .input("B", "T2")
      .optional_input("a_zero_point", "T1")
      .optional_input("b_zero_point", "T2")
      .output("Y", "T3")
      .type("T1", bytes)
      .type("T2", bytes)
      .type("T3", {I32})
      .infer(infer_matmul_integer)
      .flops(integer_matmul_flops<0>)
      .fusion(FusionKind::Anchor);
  declare.op("QLinearMatMul", 21)
      .doc("The matrix product of two quantized matrices, quantized.")
      .input("a", "T1")
      .input("a_scale", "TS")
      .input("a_zero_point", "T1")
      .input("b", "T2")
      .input("b_scale", "TS")
      .input("b_zero_point", "T2")
      .input("y_scale", "TS")
      .input("y_zero_point", "T3")
      .output("y", "T3")
      .type("TS", {F32, F16, BF16})
      .type("T1", bytes | kFloat8s)
      .type("T2", bytes | kFloat8s)
      .type("T3", bytes | kFloat8s)
      .infer(infer_qlinear_matmul)
      .flops(integer_matmul_flops<0>)
      .fusion(FusionKind::Anchor);
  with_window(declare.op("ConvInteger", 10))
      .doc("The convolution of x − x_zero_point with w − w_zero_point in i32.")
      .input("x", "T1")
      .input("w", "T2")
      .optional_input("x_zero_point", "T1")
      .optional_input("w_zero_point", "T2")
      .output("y", "T3")
      .type("T1", bytes)
      .type("T2", bytes)
      .type("T3", {I32})
      .infer(infer_conv_integer)
      .flops(convolution_flops<1>);
  with_window(declare.op("QLinearConv", 10))
      .doc("The convolution of a quantized image with quantized weights, quantized.")
      .input("x", "T1")
      .input("x_scale", "f32")
      .input("x_zero_point", "T1")
      .input("w", "T2")
      .input("w_scale", "f32")
      .input("w_zero_point", "T2")
      .input("y_scale", "f32")
      .input("y_zero_point", "T3")
      .optional_input("B", "T4")
      .output("y", "T3")
      .type("T1", bytes)
      .type("T2", bytes)
      .type("T3", bytes)
      .type("T4", {I32})
      .infer(infer_qlinear_conv)
      .flops(convolution_flops<3>);
}

}  // namespace anfora::ops
