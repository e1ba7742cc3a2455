// What a beam search is made of beside the decoder and ONNX's operators: frontend/onnx/lower_search.cc puts it together.
//
// The state of a search of B batches with K beams each, from the prompt to at most `longest` tokens:
//
//   sequences          i32[B·K, length]      the tokens of each beam so far
//   beam_scores        f32[B, K]             the sum of their log-probabilities
//   hypotheses         i32[B, K, longest]    of each batch the best sequences that ended, padded, best first
//   hypothesis_scores  f32[B, K]             their beam scores over length ^ length_penalty
//   hypothesis_counts  i32[B]                how many there are
//   done               bool[B]               no beam can do better
#include <fmt/format.h>

#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

using enum DType;

constexpr size_t kNumState = 6;
constexpr std::string_view kState[kNumState][2] = {
    {"sequences", "i32"},         {"beam_scores", "f32"},       {"hypotheses", "i32"},
    {"hypothesis_scores", "f32"}, {"hypothesis_counts", "i32"}, {"done", "bool"},
};

Declaration& with_state_inputs(Declaration& d) {
  for (auto [name, type] : kState) d.input(std::string(name), std::string(type));
  return d;
}
Declaration& with_state_outputs(Declaration& d) {
  for (auto [name, type] : kState) d.output(fmt::format("next_{}", name), std::string(type));
  return d;
}

// The only element of an integer input.
Dim scalar_of(InferenceContext& ctx, size_t i) {
  auto elements = ctx.elements(i);
  return elements && elements->size() == 1 && !(*elements)[0].is_unknown() ? (*elements)[0] : ctx.fresh_dim(i);
}

void infer_beam_start(InferenceContext& ctx) {
  enum { Prompt, MaxLength, NumBeams };
  auto prompt = ctx.dims(Prompt);
  if (prompt && prompt->size() != 2) ctx.fail("the prompt is not [batch, length]");
  const Dim batch = prompt ? (*prompt)[0] : ctx.unknown(), length = prompt ? (*prompt)[1] : ctx.unknown();
  const Dim beams = scalar_of(ctx, NumBeams), longest = scalar_of(ctx, MaxLength);
  ctx.set_tensor(0, I64, Dims{batch * beams});
  ctx.set_tensor(1, I32, Dims{batch * beams, length});
  ctx.set_tensor(2, F32, Dims{batch, beams});
  ctx.set_tensor(3, I32, Dims{batch, beams, longest});
  ctx.set_tensor(4, F32, Dims{batch, beams});
  ctx.set_tensor(5, I32, Dims{batch});
  ctx.set_tensor(6, Bool, Dims{batch});
}

void infer_constrain_tokens(InferenceContext& ctx) {
  enum { Scores, Sequences, RepetitionPenalty, VocabMask, PrefixVocabMask };
  infer_same_type(ctx);
  auto scores = ctx.dims(Scores);
  if (!scores) return;
  if (scores->size() != 2) ctx.fail("the scores are not [beams, vocabulary]");
  for (size_t i : {VocabMask, PrefixVocabMask}) {
    auto mask = ctx.has_input(i) ? ctx.dims(i) : std::nullopt;
    if (!mask) continue;
    if (mask->size() != i - RepetitionPenalty) ctx.fail(fmt::format("a mask has rank {}", mask->size()));
    merge_dim(ctx, mask->back(), scores->back());
  }
}

// The sequences grow by a token, the rest keeps its shape.
void infer_beam_step(InferenceContext& ctx) {
  enum { FirstState = 3 };
  auto sequences = ctx.dims(FirstState);
  if (sequences && sequences->size() != 2) ctx.fail("the sequences are not [rows, length]");
  const Dim rows = sequences ? (*sequences)[0] : ctx.unknown();
  ctx.set_tensor(0, I32, Dims{rows, ctx.dim(1)});
  ctx.set_tensor(1, I64, Dims{rows});
  ctx.set_tensor(2, Bool, {});
  ctx.set_tensor(3, I32, Dims{rows, sequences ? (*sequences)[1] + 1 : ctx.unknown()});
  for (size_t i = 1; i < kNumState; ++i) ctx.set_output(3 + i, ctx.input(FirstState + i));
}

void infer_beam_end(InferenceContext& ctx) {
  auto hypotheses = ctx.dims(2);
  if (hypotheses && hypotheses->size() != 3) ctx.fail("the hypotheses are not [batch, beams, length]");
  const Dim batch = hypotheses ? (*hypotheses)[0] : ctx.unknown(), count = scalar_of(ctx, kNumState);
  ctx.set_tensor(0, I32, Dims{batch, count, hypotheses ? (*hypotheses)[2] : ctx.unknown()});
  if (ctx.num_outputs() > 1) ctx.set_tensor(1, F32, Dims{batch, count});
}

}  // namespace

void declare_search(Declarations& declare) {
  Declaration start = declare.op("BeamStart", 1, "anfora");
  start
      .doc(
          "The state of a beam search before its first token: K beams with the prompt, of which the first alone "
          "counts, since they are equal; and of each beam the row of the prompt.")
      .input("prompt", "i32")
      .input("max_length", "i32")
      .input("num_beams", "i32")
      .input("num_return_sequences", "i32")
      .optional_input("min_length", "i32")
      .output("rows", "i64");
  with_state_outputs(start).attribute("pad_token_id", -1).infer(infer_beam_start);

  declare.op("ConstrainTokens", 1, "anfora")
      .doc(
          "Scores [beams, vocabulary] of the next tokens as constraints change them, in this order: of tokens that "
          "occur in the sequence, the penalty times as unlikely; of those that would repeat n tokens, that a mask "
          "excludes (prefix_vocab_mask has a row a batch), and of the end before min_length, the lowest number.")
      .input("scores", "f32")
      .input("sequences", "i32")
      .optional_input("repetition_penalty", "T")
      .optional_input("vocab_mask", "i32")
      .optional_input("prefix_vocab_mask", "i32")
      .optional_input("min_length", "i32")
      .output("constrained", "f32")
      .type("T", {F32, F16})
      .attribute("eos_token_id", -1)
      .attribute("no_repeat_ngram_size", 0)
      .infer(infer_constrain_tokens)
      .in_place();

  Declaration step = declare.op("BeamStep", 1, "anfora");
  step.doc(
          "One token of a beam search. Of each batch the 2K best continuations are given, best first: their scores, "
          "tokens and beams. Those that end are hypotheses, the first K others the next beams. Results: the token of "
          "each beam and the row that it continues, whether any batch goes on, and the state.")
      .input("scores", "f32")
      .input("tokens", "i64")
      .input("beams", "i64");
  with_state_inputs(step)
      .input("length_penalty", "T")
      .output("next_tokens", "i32")
      .output("next_rows", "i64")
      .output("go", "bool");
  with_state_outputs(step)
      .type("T", {F32, F16})
      .attribute("eos_token_id", -1)
      .attribute("pad_token_id", -1)
      .attribute("early_stopping", 0)
      .infer(infer_beam_step);

  Declaration end = declare.op("BeamEnd", 1, "anfora");
  end.doc(
      "The best sequences of each batch and their scores, at the end of a beam search: what did not end counts as "
      "it is.");
  with_state_inputs(end)
      .input("num_return_sequences", "i32")
      .input("length_penalty", "T")
      .output("best_sequences", "i32")
      .optional_output("best_scores", "f32")
      .type("T", {F32, F16})
      .attribute("pad_token_id", -1)
      .infer(infer_beam_end);
}

}  // namespace anfora::ops
