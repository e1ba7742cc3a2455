#include <fmt/format.h>

#include <algorithm>

#include "ops/elementary.h"
#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

// Q, K or V as batch, heads, sequence and size of a head, from [batch, heads, sequence, size] or [batch, sequence,
// heads * size].
struct Heads {
  Dim batch, heads, sequence, size;
  bool packed;
};

std::optional<Heads> heads_of(const InferenceContext& ctx, size_t i, std::string_view count_attribute) {
  auto dims = attention_dims(ctx, i);
  if (!dims) return std::nullopt;
  if (dims->size() == 4) return Heads{(*dims)[0], (*dims)[1], (*dims)[2], (*dims)[3], false};
  if (dims->size() != 3) ctx.fail(fmt::format("input {} has rank {}; 3 or 4 are possible", i, dims->size()));
  int64_t count = ctx.attributes().get_int(count_attribute, 0);
  if (count < 1) ctx.fail(fmt::format("input {} has rank 3, but the attribute {} is missing", i, count_attribute));
  return Heads{(*dims)[0], ctx.dim(count), (*dims)[1], floor_div((*dims)[2], count), true};
}

void infer_attention(InferenceContext& ctx) {
  auto q = heads_of(ctx, 0, "q_num_heads"), k = heads_of(ctx, 1, "kv_num_heads"), v = heads_of(ctx, 2, "kv_num_heads");
  const DType dtype = ctx.dtype(0);
  if (!q || !v || !k) {
    ctx.set_unranked(0, dtype);
    for (size_t i = 1; i < ctx.num_outputs(); ++i) ctx.set_unranked(i, i == 2 ? ctx.dtype(2) : dtype);
    return;
  }
  merge_dim(ctx, q->size, k->size);
  Dim keys = k->sequence;
  if (ctx.has_input(4)) {
    auto past = ctx.dims(4);
    require_rank(ctx, 4, 4);
    keys = keys + (past ? (*past)[2] : ctx.unknown());
  }
  const std::span<const int64_t> sequence_first = ctx.attributes().ints("sequence_first");
  Dims y = q->packed ? Dims{q->batch, q->sequence, q->heads * v->size} : Dims{q->batch, q->heads, q->sequence, v->size};
  if (!q->packed && !sequence_first.empty() && sequence_first.back() != 0) std::swap(y[1], y[2]);
  ctx.set_tensor(0, dtype, y);
  if (ctx.num_outputs() > 1) ctx.set_tensor(1, dtype, Dims{k->batch, k->heads, keys, k->size});
  if (ctx.num_outputs() > 2) ctx.set_tensor(2, ctx.dtype(2), Dims{v->batch, v->heads, keys, v->size});
  if (ctx.num_outputs() > 3) ctx.set_tensor(3, dtype, Dims{q->batch, q->heads, q->sequence, keys});
}

void infer_rotary_embedding(InferenceContext& ctx) {
  infer_same_type(ctx);
  auto rank = ctx.rank(0);
  if (rank && *rank != 3 && *rank != 4) ctx.fail(fmt::format("the input has rank {}; 3 or 4 are possible", *rank));
}

void infer_linear_attention(InferenceContext& ctx) {
  const int64_t q_heads = ctx.attribute_int("q_num_heads"), kv_heads = ctx.attribute_int("kv_num_heads");
  if (q_heads < 1 || kv_heads < 1) ctx.fail(fmt::format("{} query heads for {} key heads", q_heads, kv_heads));
  for (size_t i : {0u, 1u, 2u}) require_rank(ctx, i, 3);
  auto q = ctx.dims(0), v = ctx.dims(2);
  const Dim unknown = ctx.unknown();
  Dim batch = q ? (*q)[0] : unknown, key_size = q ? floor_div((*q)[2], q_heads) : unknown;
  Dim value_size = v ? floor_div((*v)[2], kv_heads) : unknown;
  ctx.set_tensor(0, ctx.dtype(0), Dims{batch, q ? (*q)[1] : unknown, value_size * q_heads});
  if (ctx.num_outputs() < 2) return;
  const DType state = ctx.has_input(3) ? ctx.dtype(3) : ctx.dtype(0);
  ctx.set_tensor(1, state, Dims{batch, ctx.dim(kv_heads), key_size, value_size});
}

// Two products and a sum for each element that is turned; with a rotary_embedding_dim, that is a part of each head.
double rotary_embedding_flops(const InferenceContext& ctx) {
  auto dims = ctx.dims(0);
  if (!dims || dims->empty()) return 0;
  const double turned = static_cast<double>(ctx.attribute_int("rotary_embedding_dim"));
  const double heads = dims->size() == 3 ? static_cast<double>(ctx.attributes().get_int("num_heads", 1)) : 1;
  const double size = static_cast<double>(dims->back().as_constant().value_or(0)) / std::max(heads, 1.0);
  const double share = turned > 0 && size > turned ? turned / size : 1;
  return 3 * share * element_estimate(ctx.output(0));
}

// Each step decays, corrects, writes and reads a state matrix.
double linear_attention_flops(const InferenceContext& ctx) {
  auto q = ctx.dims(0), v = ctx.dims(2);
  if (!q || !v) return 0;
  double heads = static_cast<double>(ctx.attributes().get_int("kv_num_heads", 1));
  return 8 * element_estimate(ctx.input(0)) * static_cast<double>((*v)[2].as_constant().value_or(1)) / heads;
}

void declare_attention_like(Declaration declaration) {
  declaration.input("Q", "T1")
      .input("K", "T1")
      .input("V", "T2")
      .optional_input("attn_mask", "U")
      .optional_input("past_key", "T1")
      .optional_input("past_value", "T2")
      .optional_input("nonpad_kv_seqlen", "i64")
      .output("Y", "T1")
      .optional_output("present_key", "T1")
      .optional_output("present_value", "T2")
      .optional_output("qk_matmul_output", "T1")
      .type("T1", kFloats)
      .type("T2", kFloats)
      .type("U", kNumbers | std::vector{DType::Bool})
      .attribute("is_causal", 0)
      .optional_attribute("kv_num_heads", AttributeKind::Int)
      .attribute("left_window_size", -1)
      .optional_attribute("q_num_heads", AttributeKind::Int)
      .attribute("qk_matmul_output_mode", 0)
      .attribute("right_window_size", -1)
      .optional_attribute("scale", AttributeKind::Float)
      .attribute("softcap", 0.0f)
      .optional_attribute("softmax_precision", AttributeKind::Int)
      .infer(infer_attention)
      .flops(attention_flops);
}

}  // namespace

void declare_attention(Declarations& declare) {
  const std::vector<DType> single = {DType::F32, DType::F16, DType::BF16};
  declare_attention_like(declare.op("Attention", 25).doc(
      "softmax(scale · Q Kᵀ + bias) V by heads, where the bias is a mask, causality and a window of positions; "
      "keys and values may be appended to a cache first."));
  declare_attention_like(
      declare.op("LoweredAttention", 1, "anfora")
          .doc("Attention of tensors as they lie: `columns` are those of Q, K and V, of three axes, each as the first and the one behind the "
               "last; `sequence_first` says of Q, K, V and Y, of four axes, whether they are [batch, sequence, heads, size].")
          .optional_attribute("columns", AttributeKind::Ints)
          .optional_attribute("sequence_first", AttributeKind::Ints));
  declare.op("FlexAttention", 1, "ai.onnx.preview")
      .doc("softmax(scale · Q Kᵀ) V by heads, without modifiers of scores and probabilities.")
      .input("Q", "T1")
      .input("K", "T1")
      .input("V", "T1")
      .output("Y", "T1")
      .type("T1", kFloats)
      .optional_attribute("scale", AttributeKind::Float)
      .optional_attribute("softmax_precision", AttributeKind::Int)
      .infer(infer_attention)
      .flops(attention_flops);
  declare.op("RotaryEmbedding", 23)
      .doc("Pairs of elements of each head rotated by an angle of their position.")
      .input("X", "T")
      .input("cos_cache", "T")
      .input("sin_cache", "T")
      .optional_input("position_ids", "i64")
      .output("Y", "T")
      .type("T", single)
      .attribute("interleaved", 0)
      .optional_attribute("num_heads", AttributeKind::Int)
      .attribute("rotary_embedding_dim", 0)
      .infer(infer_rotary_embedding)
      .flops(rotary_embedding_flops);
  declare.op("LinearAttention", 27)
      .doc(
          "Attention without a softmax: a matrix of state for each head is decayed, corrected and written at each "
          "step, and the query reads it.")
      .input("query", "T")
      .input("key", "T")
      .input("value", "T")
      .optional_input("past_state", "S")
      .optional_input("decay", "T")
      .optional_input("beta", "T")
      .output("output", "T")
      .optional_output("present_state", "S")
      .type("T", single)
      .type("S", single)
      .attribute("chunk_size", 64)
      .required_attribute("kv_num_heads", AttributeKind::Int)
      .required_attribute("q_num_heads", AttributeKind::Int)
      .attribute("scale", 0.0f)
      .attribute("update_rule", "gated_delta")
      .infer(infer_linear_attention)
      .flops(linear_attention_flops);
}

}  // namespace anfora::ops
