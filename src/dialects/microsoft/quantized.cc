// Quantized tensors; quantized.ir says what the operators mean.
#include "dialects/microsoft/declare.h"

namespace anfora::ops {
namespace {

using enum DType;

void set_like_first(InferenceContext& ctx, DType dtype) {
  auto dims = ctx.dims(0);
  if (!dims) return ctx.set_unranked(0, dtype);
  ctx.set_tensor(0, dtype, *dims);
}
void infer_contrib_quantize(InferenceContext& ctx) { set_like_first(ctx, ctx.has_input(2) ? ctx.dtype(2) : U8); }
void infer_contrib_dequantize(InferenceContext& ctx) { set_like_first(ctx, ctx.dtype(1)); }

// The input has the rank of the output, whose dimensions are left to what the operator becomes.
void set_rank_of_input(InferenceContext& ctx, size_t input, DType dtype) {
  auto dims = ctx.dims(input);
  if (!dims) return ctx.set_unranked(0, dtype);
  ctx.set_tensor(0, dtype, Dims(dims->size(), ctx.unknown()));
}
void infer_quantized_pool(InferenceContext& ctx) { set_rank_of_input(ctx, 0, ctx.dtype(0)); }
void infer_quantized_concat(InferenceContext& ctx) { set_rank_of_input(ctx, 2, ctx.dtype(1)); }
void infer_quantized_convolution(InferenceContext& ctx) { set_rank_of_input(ctx, 0, ctx.dtype(7)); }
void infer_mean(InferenceContext& ctx) {
  if (ctx.attribute_int("keepdims")) return set_rank_of_input(ctx, 0, ctx.dtype(0));
  ctx.set_unranked(0, ctx.dtype(0));
}

void infer_binary(InferenceContext& ctx) {
  auto a = ctx.dims(0), b = ctx.dims(3);
  if (!a || !b) return ctx.set_unranked(0, ctx.dtype(0));
  ctx.set_tensor(0, ctx.dtype(0), broadcast_dims(ctx, *a, *b));
}
void infer_quantized_where(InferenceContext& ctx) {
  auto condition = ctx.dims(0), x = ctx.dims(1), y = ctx.dims(4);
  if (!condition || !x || !y) return ctx.set_unranked(0, ctx.dtype(1));
  ctx.set_tensor(0, ctx.dtype(1), broadcast_dims(ctx, *condition, broadcast_dims(ctx, *x, *y)));
}

void set_product(InferenceContext& ctx, DType dtype) {
  auto a = ctx.dims(0), b = ctx.dims(1);
  if (!a || !b) return ctx.set_unranked(0, dtype);
  ctx.set_tensor(0, dtype, matmul_dims(ctx, *a, *b));
}
void infer_matmul_integer_to_float(InferenceContext& ctx) { set_product(ctx, ctx.dtype(2)); }
void infer_dynamic_matmul(InferenceContext& ctx) { set_product(ctx, F32); }

void infer_quantized_gemm(InferenceContext& ctx) {
  const DType dtype = ctx.has_input(8) ? ctx.dtype(8) : ctx.has_input(7) ? ctx.dtype(0) : F32;
  auto a = ctx.dims(0), b = ctx.dims(3);
  if (!a || !b || a->size() != 2 || b->size() != 2) return ctx.set_unranked(0, dtype);
  ctx.set_tensor(0, dtype, Dims{(*a)[ctx.attribute_int("transA") ? 1 : 0], (*b)[ctx.attribute_int("transB") ? 0 : 1]});
}

// Y is [sequence, directions, batch, hidden], the last states [directions, batch, hidden].
void infer_lstm(InferenceContext& ctx) {
  auto x = ctx.dims(0), r = ctx.dims(2);
  const bool known = x && r && x->size() == 3 && r->size() == 3;
  for (size_t i = 0; i < ctx.num_outputs(); ++i) {
    if (!known) {
      ctx.set_unranked(i, F32);
    } else if (i == 0) {
      ctx.set_tensor(i, F32, Dims{(*x)[0], (*r)[0], (*x)[1], (*r)[1]});
    } else {
      ctx.set_tensor(i, F32, Dims{(*r)[0], (*x)[1], (*r)[1]});
    }
  }
}

void declare_conversions(Declarations& declare) {
  const std::vector<DType> quantized = {I8, U8, I16, U16, I4, U4};
  contrib(declare, "QuantizeLinear", "ONNX's, of more types.")
      .input("x", "T")
      .input("y_scale", "T")
      .optional_input("y_zero_point", "Q")
      .output("y", "Q")
      .type("T", {F32, F16})
      .type("Q", quantized)
      .optional_attribute("axis", AttributeKind::Int)
      .infer(infer_contrib_quantize);
  contrib(declare, "DequantizeLinear", "ONNX's, of more types.")
      .input("x", "Q")
      .input("x_scale", "T")
      .optional_input("x_zero_point", "Q")
      .output("y", "T")
      .type("T", {F32, F16})
      .type("Q", quantized | std::vector{I32})
      .optional_attribute("axis", AttributeKind::Int)
      .infer(infer_contrib_dequantize);
}

// X, its scale and zero point, the scale and zero point of Y.
Declaration unary(Declarations& declare, const char* name, const char* doc) {
  return contrib(declare, name, doc)
      .input("X", "T")
      .input("X_scale", "f32")
      .optional_input("X_zero_point", "T")
      .input("Y_scale", "f32")
      .optional_input("Y_zero_point", "T")
      .output("Y", "T")
      .type("T", kBytes);
}

Declaration quantized_pool(Declaration declaration) {
  return declaration.attribute("auto_pad", "NOTSET")
      .attribute("ceil_mode", 0)
      .required_attribute("kernel_shape", AttributeKind::Ints)
      .optional_attribute("pads", AttributeKind::Ints)
      .optional_attribute("strides", AttributeKind::Ints)
      .infer(infer_quantized_pool);
}

void declare_elementwise(Declarations& declare) {
  for (auto [name, doc] : {std::pair{"QLinearAdd", "A + B of quantized tensors, quantized."},
                           std::pair{"QLinearMul", "A · B of quantized tensors, quantized."}}) {
    contrib(declare, name, doc)
        .input("A", "T")
        .input("A_scale", "f32")
        .optional_input("A_zero_point", "T")
        .input("B", "T")
        .input("B_scale", "f32")
        .optional_input("B_zero_point", "T")
        .input("C_scale", "f32")
        .optional_input("C_zero_point", "T")
        .output("C", "T")
        .type("T", kBytes)
        .infer(infer_binary);
  }
  contrib(declare, "QLinearWhere", "X where the condition holds, else Y, of quantized tensors, quantized.")
      .input("condition", "bool")
      .input("X", "T")
      .input("x_scale", "f32")
      .input("x_zero_point", "T")
      .input("Y", "T")
      .input("y_scale", "f32")
      .input("y_zero_point", "T")
      .input("z_scale", "f32")
      .input("z_zero_point", "T")
      .output("Z", "T")
      .type("T", kBytes)
      .infer(infer_quantized_where);
  unary(declare, "QLinearSigmoid", "Sigmoid of a quantized tensor, quantized.").infer(infer_same_type);
  unary(declare, "QLinearLeakyRelu", "LeakyRelu of a quantized tensor, quantized.")
      .attribute("alpha", 0.01f)
      .infer(infer_same_type);
  unary(declare, "QLinearSoftmax",
        "Softmax of a quantized tensor, quantized; before operator set 13 over all axes from one on.")
      .attribute("axis", -1)
      .required_attribute("opset", AttributeKind::Int)
      .infer(infer_same_type);
}

void declare_windows(Declarations& declare) {
  unary(declare, "QLinearReduceMean", "ReduceMean of a quantized tensor, quantized.")
      .required_attribute("axes", AttributeKind::Ints)
      .required_attribute("keepdims", AttributeKind::Int)
      .infer(infer_mean);
  unary(declare, "QLinearGlobalAveragePool", "GlobalAveragePool of a quantized tensor, quantized.")
      .attribute("channels_last", 0)
      .infer(infer_quantized_pool);
  quantized_pool(unary(declare, "QLinearAveragePool", "AveragePool of a quantized tensor, quantized.")
                     .attribute("channels_last", 0)
                     .attribute("count_include_pad", 0));
  quantized_pool(contrib(declare, "NhwcMaxPool", "MaxPool, channels last.")
                     .input("x", "T")
                     .output("y", "T")
                     .type("T", kBytes)
                     .optional_attribute("dilations", AttributeKind::Ints));
  contrib(declare, "QLinearConcat",
             "Concat of quantized tensors, each with its scale and zero point behind it, quantized.")
      .input("Y_scale", "f32")
      .input("Y_zero_point", "T")
      .variadic_input("inputs", "V")
      .output("Y", "T")
      .type("T", kBytes)
      .type("V", kAnyType)
      .required_attribute("axis", AttributeKind::Int)
      .infer(infer_quantized_concat);
  contrib(declare, "QLinearConv", "ONNX's QLinearConv, channels last or not.")
      .input("x", "T1")
      .input("x_scale", "f32")
      .input("x_zero_point", "T1")
      .input("w", "T2")
      .input("w_scale", "f32")
      .input("w_zero_point", "T2")
      .input("y_scale", "f32")
      .input("y_zero_point", "T3")
      .optional_input("B", "i32")
      .output("y", "T3")
      .type("T1", kBytes)
      .type("T2", kBytes)
      .type("T3", kBytes)
      .attribute("auto_pad", "NOTSET")
      .attribute("channels_last", 0)
      .attribute("group", 1)
      .optional_attribute("dilations", AttributeKind::Ints)
      .optional_attribute("kernel_shape", AttributeKind::Ints)
      .optional_attribute("pads", AttributeKind::Ints)
      .optional_attribute("strides", AttributeKind::Ints)
      .infer(infer_quantized_convolution);
}

void declare_quantized_products(Declarations& declare) {
  contrib(declare, "QGemm", "Gemm of quantized matrices; quantized where Y has a scale.")
      .input("A", "TA")
      .input("a_scale", "f32")
      .input("a_zero_point", "TA")
      .input("B", "TB")
      .input("b_scale", "f32")
      .input("b_zero_point", "TB")
      .optional_input("C", "i32")
      .optional_input("y_scale", "f32")
      .optional_input("y_zero_point", "TZ")
      .output("Y", "TY")
      .type("TA", kBytes)
      .type("TB", kBytes)
      .type("TZ", kBytes)
      .type("TY", {F32, I8, U8})
      .attribute("alpha", 1.0f)
      .attribute("transA", 0)
      .attribute("transB", 0)
      .infer(infer_quantized_gemm);
  contrib(declare, "MatMulIntegerToFloat", "MatMul of quantized tensors, and a bias; not quantized.")
      .input("A", "T1")
      .input("B", "T2")
      .input("a_scale", "T3")
      .input("b_scale", "T3")
      .optional_input("a_zero_point", "T1")
      .optional_input("b_zero_point", "T2")
      .optional_input("bias", "T3")
      .output("Y", "T3")
      .type("T1", kBytes)
      .type("T2", kBytes)
      .type("T3", {F32, F16})
      .infer(infer_matmul_integer_to_float);
  contrib(declare, "DynamicQuantizeMatMul",
             "MatMul of A, which is quantized before, with a quantized tensor, and a bias.")
      .input("A", "f32")
      .input("B", "T2")
      .input("b_scale", "f32")
      .optional_input("b_zero_point", "T2")
      .optional_input("bias", "f32")
      .output("Y", "f32")
      .type("T2", kBytes)
      .infer(infer_dynamic_matmul);
  contrib(declare, "DynamicQuantizeLSTM", "LSTM with quantized weights, the gates of which are the last axis.")
      .input("X", "f32")
      .input("W", "T2")
      .input("R", "T2")
      .optional_input("B", "f32")
      .optional_input("sequence_lens", "i32")
      .optional_input("initial_h", "f32")
      .optional_input("initial_c", "f32")
      .optional_input("P", "f32")
      .input("W_scale", "f32")
      .input("W_zero_point", "T2")
      .input("R_scale", "f32")
      .input("R_zero_point", "T2")
      .optional_output("Y", "f32")
      .optional_output("Y_h", "f32")
      .optional_output("Y_c", "f32")
      .type("T2", kBytes)
      .optional_attribute("activation_alpha", AttributeKind::Floats)
      .optional_attribute("activation_beta", AttributeKind::Floats)
      .optional_attribute("activations", AttributeKind::Strings)
      .optional_attribute("clip", AttributeKind::Float)
      .attribute("direction", "forward")
      .optional_attribute("hidden_size", AttributeKind::Int)
      .attribute("input_forget", 0)
      .infer(infer_lstm);
}

}  // namespace

void declare_microsoft_quantized(Declarations& declare) {
  declare_conversions(declare);
  declare_elementwise(declare);
  declare_windows(declare);
  declare_quantized_products(declare);
}

}  // namespace anfora::ops
