// Attentions; attention.ir and grouped_attention.ir say what the operators mean.
#include <fmt/format.h>

#include <algorithm>

#include "dialects/microsoft/declare.h"

namespace anfora::ops {
namespace {

using enum DType;

// Not known where the width is not.
Dim head_size(const InferenceContext& ctx, Dim width, int64_t heads) {
  if (heads < 1) ctx.fail("num_heads must be positive");
  const auto known = width.as_constant();
  if (known && *known % heads != 0) ctx.fail(fmt::format("{} columns do not divide into {} heads", *known, heads));
  return floor_div(width, heads);
}

// [batch], [2 · batch] or [3 · batch + 2], [batch, keys], [batch, queries, keys] or [batch, 1, longest, longest].
void require_attention_mask(const InferenceContext& ctx, size_t i) {
  auto mask = ctx.has_input(i) ? ctx.dims(i) : std::nullopt;
  if (!mask) return;
  if (mask->empty() || mask->size() > 4) ctx.fail(fmt::format("the mask has rank {}; 1 to 4 exist", mask->size()));
  if (mask->size() == 4 && (*mask)[1].as_constant().value_or(1) != 1) {
    ctx.fail(fmt::format("the mask is {}; of rank 4 it is [batch, 1, longest, longest]", to_string(ctx.input(i))));
  }
}

void set_all_unranked(InferenceContext& ctx, DType dtype) {
  for (size_t i = 0; i < ctx.num_outputs(); ++i) ctx.set_unranked(i, dtype);
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

// [batch, sequence, a third of the weights' width], and the cache, [2, batch, heads, keys, size].
void infer_quantized_attention(InferenceContext& ctx) {
  const DType dtype = ctx.dtype(3);
  for (size_t i = 0; i < ctx.num_outputs(); ++i) ctx.set_unranked(i, dtype);
  auto x = ctx.dims(0), weights = ctx.dims(1);
  const int64_t heads = ctx.attribute_int("num_heads");
  require_attention_mask(ctx, 5);
  if (!x || !weights || x->size() != 3 || weights->size() != 2) return;
  const Dim width = floor_div((*weights)[1], 3), size = head_size(ctx, width, heads);
  ctx.set_tensor(0, dtype, Dims{(*x)[0], (*x)[1], width});
  if (ctx.num_outputs() < 2) return;
  const Dim keys = ctx.has_input(8) ? ctx.unknown() : (*x)[1];
  ctx.set_tensor(1, dtype, Dims{ctx.dim(2), (*x)[0], ctx.dim(heads), keys, size});
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

}  // namespace

void declare_microsoft_attention(Declarations& declare) {
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
  contrib(declare, "QAttention", "Attention of a projection, the input and weights of which are quantized.")
      .input("input", "T1")
      .input("weight", "T2")
      .input("bias", "T3")
      .input("input_scale", "T3")
      .input("weight_scale", "T3")
      .optional_input("mask_index", "i32")
      .optional_input("input_zero_point", "T1")
      .optional_input("weight_zero_point", "T2")
      .optional_input("past", "T3")
      .output("output", "T3")
      .optional_output("present", "T3")
      .type("T1", kBytes)
      .type("T2", kBytes)
      .type("T3", {F32, F16})
      .required_attribute("num_heads", AttributeKind::Int)
      .attribute("do_rotary", 0)
      .attribute("mask_filter_value", -10000.0f)
      .attribute("past_present_share_buffer", 0)
      .optional_attribute("scale", AttributeKind::Float)
      .attribute("unidirectional", 0)
      .infer(infer_quantized_attention);
}

}  // namespace anfora::ops
