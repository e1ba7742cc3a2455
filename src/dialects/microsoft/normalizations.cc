// Normalizations; normalizations.ir says what the operators mean.
#include "dialects/microsoft/declare.h"

namespace anfora::ops {
namespace {

using enum DType;

// The output as the input, to which all else broadcasts; mean and deviation of each row; the sum that is normalized.
void infer_skip_normalization(InferenceContext& ctx) {
  infer_broadcast_to_first(ctx);
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

void infer_quantized_embedding(InferenceContext& ctx) {
  auto ids = ctx.dims(0), words = ctx.dims(2);
  ctx.set_unranked(0, F32);
  if (ctx.num_outputs() > 1) ctx.set_unranked(1, I32);
  if (!ids || !words || ids->size() != 2 || words->size() != 2) return;
  ctx.set_tensor(0, F32, Dims{(*ids)[0], (*ids)[1], (*words)[1]});
  if (ctx.num_outputs() > 1) ctx.set_tensor(1, I32, Dims{(*ids)[0]});
}

}  // namespace

void declare_microsoft_normalizations(Declarations& declare) {
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
  contrib(declare, "QEmbedLayerNormalization", "EmbedLayerNormalization of quantized tables.")
      .input("input_ids", "i32")
      .optional_input("segment_ids", "i32")
      .input("word_embedding_quant", "T")
      .input("position_embedding_quant", "T")
      .optional_input("segment_embedding", "T")
      .input("gamma_quant", "T")
      .input("beta_quant", "T")
      .optional_input("mask", "i32")
      .input("word_embedding_scale", "f32")
      .input("position_embedding_scale", "f32")
      .optional_input("segment_embedding_scale", "f32")
      .input("gamma_scale", "f32")
      .input("beta_scale", "f32")
      .input("word_embedding_zero_point", "T")
      .input("position_embedding_zero_point", "T")
      .optional_input("segment_embedding_zero_point", "T")
      .input("gamma_zero_point", "T")
      .input("beta_zero_point", "T")
      .output("layernorm_out", "f32")
      .output("mask_index_out", "i32")
      .type("T", kBytes)
      .attribute("epsilon", 1e-12f)
      .infer(infer_quantized_embedding);
}

}  // namespace anfora::ops
