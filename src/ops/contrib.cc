// Operators that ONNX Runtime's optimizer leaves in models (domain com.microsoft). They are declared so that they are typed,
// and rewritten into ONNX's operators before a model runs (rules/contrib.rules, passes/expand.cc); none has a kernel.
#include <fmt/format.h>

#include <algorithm>

#include "ops/infer_heads.h"
#include "ops/infer_window.h"
#include "ops/registry.h"

namespace anfora::ops {

Dim head_size(const InferenceContext& ctx, Dim width, int64_t heads) {
  if (heads < 1) ctx.fail("num_heads must be positive");
  const auto known = width.as_constant();
  if (known && *known % heads != 0) ctx.fail(fmt::format("{} columns do not divide into {} heads", *known, heads));
  return floor_div(width, heads);
}

void require_attention_mask(const InferenceContext& ctx, size_t i) {
  auto mask = ctx.has_input(i) ? ctx.dims(i) : std::nullopt;
  if (!mask) return;
  if (mask->empty() || mask->size() > 4) ctx.fail(fmt::format("the mask has rank {}; 1 to 4 exist", mask->size()));
  if (mask->size() == 4 && (*mask)[1].as_constant().value_or(1) != 1) {
    ctx.fail(fmt::format("the mask is {}; of rank 4 it is [batch, 1, longest, longest]", to_string(ctx.input(i))));
  }
}

namespace {

using enum DType;

void set_all_unranked(InferenceContext& ctx, DType dtype) {
  for (size_t i = 0; i < ctx.num_outputs(); ++i) ctx.set_unranked(i, dtype);
}

// The output as the input; mean and deviation of each row; the sum that is normalized.
void infer_skip_normalization(InferenceContext& ctx) {
  infer_same_type(ctx);
  auto dims = ctx.dims(0);
  for (size_t i = 1; i < ctx.num_outputs(); ++i) {
    if (i == 3) {
      ctx.set_output(i, ctx.input(0));
    } else if (dims && !dims->empty()) {
      Dims rows = *dims;
      rows.back() = ctx.dim(1);
      ctx.set_tensor(i, F32, rows);
    } else {
      ctx.set_unranked(i, F32);
    }
  }
}

void infer_embedding(InferenceContext& ctx) {
  const DType dtype = ctx.dtype(2);
  auto ids = ctx.dims(0), words = ctx.dims(2);
  if (!ids || !words || ids->size() != 2 || words->size() != 2) {
    for (size_t i = 0; i < ctx.num_outputs(); ++i) ctx.set_unranked(i, i == 1 ? I32 : dtype);
    return;
  }
  const Dims embedded{(*ids)[0], (*ids)[1], (*words)[1]};
  ctx.set_tensor(0, dtype, embedded);
  if (ctx.num_outputs() > 1) ctx.set_tensor(1, I32, Dims{(*ids)[0]});
  if (ctx.num_outputs() > 2) ctx.set_tensor(2, dtype, embedded);
}

// Output [batch, sequence, width of V] and the cache of keys and values, [2, batch, heads, all keys, size].
void infer_packed_attention(InferenceContext& ctx) {
  const DType dtype = ctx.dtype(0);
  const int64_t heads = ctx.attribute_int("num_heads");
  auto x = ctx.dims(0), weights = ctx.dims(1);
  if (!x || !weights || x->size() != 3 || weights->size() != 2) return set_all_unranked(ctx, dtype);
  const std::vector<int64_t> sizes = ctx.attributes().get_ints("qkv_hidden_sizes");
  if (!sizes.empty() && sizes.size() != 3) ctx.fail("qkv_hidden_sizes has not three items");
  const Dim width = sizes.empty() ? floor_div((*weights)[1], 3) : ctx.dim(sizes[2]);
  const Dim size = head_size(ctx, width, heads);
  if (!sizes.empty()) head_size(ctx, ctx.dim(sizes[0]), heads);
  require_attention_mask(ctx, 3);
  ctx.set_tensor(0, dtype, Dims{(*x)[0], (*x)[1], width});
  if (ctx.num_outputs() < 2) return;
  Dim keys = (*x)[1];
  if (ctx.has_input(4)) {
    auto past = ctx.dims(4);
    keys = past && past->size() == 5 && !ctx.has_input(6) ? keys + (*past)[3] : ctx.unknown();
  }
  ctx.set_tensor(1, dtype, Dims{ctx.dim(2), (*x)[0], ctx.dim(heads), keys, size});
}

// Q is [batch, sequence, width]; K and V the same or already split into heads, [batch, heads, keys, size]. A cache whose new
// length is told grows no more.
void set_multi_head_attention(InferenceContext& ctx, size_t mask, size_t past_key, size_t past_length) {
  const DType dtype = ctx.dtype(0);
  const int64_t heads = ctx.attribute_int("num_heads");
  set_all_unranked(ctx, dtype);
  require_attention_mask(ctx, mask);
  auto q = ctx.dims(0), k = ctx.dims(1), v = ctx.dims(2);
  if (q && q->size() == 3) head_size(ctx, (*q)[2], heads);
  if (!q || !k || !v || q->size() != 3 || (k->size() != 3 && k->size() != 4) || v->size() != k->size()) return;
  const bool split = k->size() == 4;
  const Dim key_size = split ? (*k)[3] : head_size(ctx, (*k)[2], heads);
  const Dim value_size = split ? (*v)[3] : head_size(ctx, (*v)[2], heads);
  ctx.set_tensor(0, dtype, Dims{(*q)[0], (*q)[1], split ? value_size * heads : (*v)[2]});
  if (ctx.num_outputs() == 1) return;
  Dim keys = split ? (*k)[2] : (*k)[1];
  if (ctx.has_input(past_key)) {
    auto past = ctx.dims(past_key);
    keys = past && past->size() == 4 && !ctx.has_input(past_length) ? keys + (*past)[2] : ctx.unknown();
  }
  ctx.set_tensor(1, dtype, Dims{(*q)[0], ctx.dim(heads), keys, key_size});
  if (ctx.num_outputs() > 2) ctx.set_tensor(2, dtype, Dims{(*q)[0], ctx.dim(heads), keys, value_size});
  if (ctx.num_outputs() > 3) ctx.set_tensor(3, dtype, Dims{(*q)[0], ctx.dim(heads), (*q)[1], keys});
}

void infer_multi_head_attention(InferenceContext& ctx) { set_multi_head_attention(ctx, 4, 6, 8); }
void infer_masked_attention(InferenceContext& ctx) { set_multi_head_attention(ctx, 3, 5, 7); }

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

void infer_matmul_like(InferenceContext& ctx) {
  auto a = ctx.dims(0), b = ctx.dims(1);
  if (!a || !b) return ctx.set_unranked(0, ctx.dtype(0));
  ctx.set_tensor(0, ctx.dtype(0), matmul_dims(ctx, *a, *b));
}

void infer_fused_gemm(InferenceContext& ctx) {
  auto a = ctx.dims(0), b = ctx.dims(1);
  if (!a || !b || a->size() != 2 || b->size() != 2) return ctx.set_unranked(0, ctx.dtype(0));
  ctx.set_tensor(0, ctx.dtype(0),
                 Dims{(*a)[ctx.attribute_int("transA") ? 1 : 0], (*b)[ctx.attribute_int("transB") ? 0 : 1]});
}

// Q is [batch, sequence, width], or holds K and V as well; the caches are [batch, heads of keys, keys, size].
void infer_grouped_attention(InferenceContext& ctx) {
  const DType dtype = ctx.dtype(0);
  const int64_t heads = ctx.attribute_int("num_heads"), groups = ctx.attribute_int("kv_num_heads");
  set_all_unranked(ctx, dtype);
  auto q = ctx.dims(0);
  if (!q || q->size() != 3) return;
  const Dim size = head_size(ctx, (*q)[2], ctx.has_input(1) ? heads : heads + 2 * groups);
  ctx.set_tensor(0, dtype, Dims{(*q)[0], (*q)[1], size * heads});
  const Dim keys = ctx.has_input(3) ? ctx.unknown() : (*q)[1];
  for (size_t i = 1; i < std::min<size_t>(3, ctx.num_outputs()); ++i)
    ctx.set_tensor(i, dtype, Dims{(*q)[0], ctx.dim(groups), keys, size});
}

Declaration contrib(Declarations& declare, const char* name, const char* doc) {
  return declare.op(name, 1, "com.microsoft").doc(doc).no_kernel();
}

void declare_activations(Declarations& declare) {
  contrib(declare, "Gelu", "x · Φ(x), where Φ is the normal distribution.")
      .input("X", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .infer(infer_same_type);
  contrib(declare, "FastGelu", "Gelu of x + bias, by tanh.")
      .input("X", "T")
      .optional_input("bias", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .infer(infer_same_type);
  contrib(declare, "BiasGelu", "Gelu of A + B.")
      .input("A", "T")
      .input("B", "T")
      .output("C", "T")
      .type("T", kFloats)
      .infer(infer_same_type);
  contrib(declare, "QuickGelu", "x · Sigmoid(alpha · x).")
      .input("X", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .attribute("alpha", 1.702f)
      .infer(infer_same_type);
  contrib(declare, "BiasAdd", "X + bias + skip.")
      .input("X", "T")
      .input("bias", "T")
      .input("skip", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .infer(infer_same_type);
}

void declare_normalizations(Declarations& declare) {
  contrib(declare, "SkipLayerNormalization", "LayerNormalization of input + skip + bias.")
      .input("input", "T")
      .input("skip", "T")
      .input("gamma", "T")
      .optional_input("beta", "T")
      .optional_input("bias", "T")
      .output("output", "T")
      .optional_output("mean", "U")
      .optional_output("inv_std_var", "U")
      .optional_output("input_skip_bias_sum", "T")
      .type("T", kFloats)
      .type("U", {F32})
      .attribute("epsilon", 1e-12f)
      .infer(infer_skip_normalization);
  contrib(declare, "SkipSimplifiedLayerNormalization", "RMSNormalization of input + skip + bias.")
      .input("input", "T")
      .input("skip", "T")
      .input("gamma", "T")
      .optional_input("bias", "T")
      .output("output", "T")
      .optional_output("mean", "U")
      .optional_output("inv_std_var", "U")
      .optional_output("input_skip_bias_sum", "T")
      .type("T", kFloats)
      .type("U", {F32})
      .attribute("epsilon", 1e-12f)
      .infer(infer_skip_normalization);
  contrib(
      declare, "EmbedLayerNormalization",
      "LayerNormalization of the sum of the embeddings of words, positions and segments; counts the words of each row.")
      .input("input_ids", "I")
      .optional_input("segment_ids", "I")
      .input("word_embedding", "T")
      .input("position_embedding", "T")
      .optional_input("segment_embedding", "T")
      .input("gamma", "T")
      .input("beta", "T")
      .optional_input("mask", "I")
      .optional_input("position_ids", "I")
      .output("output", "T")
      .optional_output("mask_index", "I")
      .optional_output("embedding_sum", "T")
      .type("T", kFloats)
      .type("I", {I32})
      .attribute("epsilon", 1e-12f)
      .attribute("mask_index_type", 1)
      .infer(infer_embedding);
}

void declare_attentions(Declarations& declare) {
  contrib(declare, "Attention", "Attention of a projection: Q, K and V are parts of input · weights + bias.")
      .input("input", "T")
      .input("weights", "T")
      .optional_input("bias", "T")
      .optional_input("mask_index", "i32")
      .optional_input("past", "T")
      .optional_input("attention_bias", "T")
      .optional_input("past_sequence_length", "i32")
      .output("output", "T")
      .optional_output("present", "T")
      .type("T", kFloats)
      .required_attribute("num_heads", AttributeKind::Int)
      .attribute("unidirectional", 0)
      .attribute("mask_filter_value", -10000.0f)
      .attribute("do_rotary", 0)
      .attribute("past_present_share_buffer", 0)
      .attribute("rotary_embedding_dim", 0)
      .optional_attribute("scale", AttributeKind::Float)
      .optional_attribute("qkv_hidden_sizes", AttributeKind::Ints)
      .infer(infer_packed_attention);
  contrib(declare, "MultiHeadAttention", "Attention by heads, with biases of Q, K and V, a mask and a cache.")
      .input("query", "T")
      .optional_input("key", "T")
      .optional_input("value", "T")
      .optional_input("bias", "T")
      .optional_input("key_padding_mask", "i32")
      .optional_input("attention_bias", "T")
      .optional_input("past_key", "T")
      .optional_input("past_value", "T")
      .optional_input("past_sequence_length", "i32")
      .optional_input("cache_indirection", "i32")
      .output("output", "T")
      .optional_output("present_key", "T")
      .optional_output("present_value", "T")
      .optional_output("qk", "T")
      .type("T", kFloats)
      .required_attribute("num_heads", AttributeKind::Int)
      .attribute("unidirectional", 0)
      .attribute("mask_filter_value", -10000.0f)
      .optional_attribute("scale", AttributeKind::Float)
      .infer(infer_multi_head_attention);
  contrib(declare, "DecoderMaskedMultiHeadAttention",
          "MultiHeadAttention of one query, with other places of its inputs.")
      .input("query", "T")
      .optional_input("key", "T")
      .optional_input("value", "T")
      .optional_input("mask_index", "i32")
      .optional_input("attention_bias", "T")
      .optional_input("past_key", "T")
      .optional_input("past_value", "T")
      .optional_input("past_sequence_length", "i32")
      .optional_input("beam_width", "i32")
      .optional_input("cache_indirection", "i32")
      .optional_input("bias", "T")
      .output("output", "T")
      .optional_output("present_key", "T")
      .optional_output("present_value", "T")
      .optional_output("qk", "T")
      .type("T", {F32, F16})
      .required_attribute("num_heads", AttributeKind::Int)
      .attribute("mask_filter_value", -10000.0f)
      .attribute("output_qk", 0)
      .attribute("past_present_share_buffer", 0)
      .optional_attribute("scale", AttributeKind::Float)
      .infer(infer_masked_attention);
  contrib(declare, "GroupQueryAttention",
          "Causal attention, several heads of queries to one of keys, with a cache and rotated positions.")
      .input("query", "T")
      .optional_input("key", "T")
      .optional_input("value", "T")
      .optional_input("past_key", "T")
      .optional_input("past_value", "T")
      .input("seqlens_k", "i32")
      .input("total_sequence_length", "i32")
      .optional_input("cos_cache", "T")
      .optional_input("sin_cache", "T")
      .optional_input("position_ids", "i64")
      .optional_input("attention_bias", "T")
      .optional_input("head_sink", "T")
      .optional_input("k_scale", "f32")
      .optional_input("v_scale", "f32")
      .optional_input("q_norm_weight", "T")
      .optional_input("k_norm_weight", "T")
      .output("output", "T")
      .optional_output("present_key", "T")
      .optional_output("present_value", "T")
      .optional_output("output_qk", "T")
      .type("T", {F32, F16, BF16})
      .required_attribute("num_heads", AttributeKind::Int)
      .required_attribute("kv_num_heads", AttributeKind::Int)
      .attribute("causal", 1)
      .attribute("do_rotary", 0)
      .attribute("k_quant_type", "NONE")
      .optional_attribute("kv_cache_bit_width", AttributeKind::Int)
      .attribute("local_window_size", -1)
      .attribute("qk_norm_epsilon", 1e-6f)
      .attribute("qk_output", 0)
      .attribute("rotary_interleaved", 0)
      .optional_attribute("scale", AttributeKind::Float)
      .attribute("sliding_window_cache", 0)
      .attribute("smooth_softmax", -1)
      .optional_attribute("softcap", AttributeKind::Float)
      .attribute("v_quant_type", "NONE")
      .infer(infer_grouped_attention);
  contrib(declare, "RotaryEmbedding", "Pairs of elements of each head rotated by an angle of their position.")
      .input("input", "T")
      .input("position_ids", "i64")
      .input("cos_cache", "T")
      .input("sin_cache", "T")
      .output("output", "T")
      .type("T", {F32, F16, BF16})
      .attribute("interleaved", 0)
      .attribute("num_heads", 0)
      .attribute("rotary_embedding_dim", 0)
      .attribute("is_packed_batching", 0)
      .attribute("scale", 1.0f)
      .infer(infer_same_type);
}

void declare_products(Declarations& declare) {
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
  contrib(declare, "GemmFastGelu", "FastGelu of X · W + bias.")
      .input("X", "T")
      .input("W", "T")
      .optional_input("bias", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .infer(infer_matmul_like);
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
}

}  // namespace

void declare_contrib(Declarations& declare) {
  declare_activations(declare);
  declare_normalizations(declare);
  declare_attentions(declare);
  declare_products(declare);
}

}  // namespace anfora::ops
