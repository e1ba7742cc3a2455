#include <fmt/format.h>

#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

// Y [steps, directions, batch, hidden], Y_h and, of LSTM, Y_c [directions, batch, hidden]; with layout 1 batch first.
void infer_recurrent(InferenceContext& ctx) {
  for (size_t i : {0u, 1u, 2u}) require_rank(ctx, i, 3);
  const bool batch_first = ctx.attribute_int("layout") != 0;
  const Dim unknown = ctx.unknown();
  auto x = ctx.dims(0), r = ctx.dims(2);
  Dim steps = x ? (*x)[batch_first ? 1 : 0] : unknown, batch = x ? (*x)[batch_first ? 0 : 1] : unknown;
  Dim directions = ctx.dim(ctx.attribute_string("direction") == "bidirectional" ? 2 : 1);
  Dim hidden = r ? (*r)[2] : unknown;
  if (ctx.attributes().has("hidden_size")) hidden = merge_dim(ctx, hidden, ctx.dim(ctx.attribute_int("hidden_size")));
  if (auto w = ctx.dims(1)) merge_dim(ctx, (*w)[0], directions);
  if (auto w = ctx.dims(1); x && w) merge_dim(ctx, (*x)[2], (*w)[2]);
  Dims all{steps, directions, batch, hidden}, state{directions, batch, hidden};
  if (batch_first) all = {batch, steps, directions, hidden}, state = {batch, directions, hidden};
  for (size_t i = 0; i < ctx.num_outputs(); ++i) ctx.set_tensor(i, ctx.dtype(0), i == 0 ? all : state);
}

// Every step multiplies by W and R.
double recurrent_flops(const InferenceContext& ctx) {
  auto x = ctx.dims(0);
  if (!x) return 0;
  double steps = 2;
  for (size_t i : {0u, 1u}) steps *= (*x)[i].is_constant() ? static_cast<double>((*x)[i].constant()) : 1;
  return steps * (element_estimate(ctx.input(1)) + element_estimate(ctx.input(2)));
}

Declaration recurrent(Declarations& declare, const char* name, const char* doc) {
  return declare.op(name, 22)
      .doc(doc)
      .input("X", "T")
      .input("W", "T")
      .input("R", "T")
      .optional_input("B", "T")
      .optional_input("sequence_lens", "i32")
      .optional_input("initial_h", "T")
      .optional_output("Y", "T")
      .optional_output("Y_h", "T")
      .type("T", kFloats)
      .optional_attribute("activation_alpha", AttributeKind::Floats)
      .optional_attribute("activation_beta", AttributeKind::Floats)
      .optional_attribute("activations", AttributeKind::Strings)
      .optional_attribute("clip", AttributeKind::Float)
      .attribute("direction", "forward")
      .optional_attribute("hidden_size", AttributeKind::Int)
      .attribute("layout", 0)
      .infer(infer_recurrent)
      .flops(recurrent_flops);
}

}  // namespace

void declare_recurrent(Declarations& declare) {
  recurrent(declare, "RNN", "A recurrent layer: H = f(X Wᵀ + H Rᵀ + b) at each step, in one or both directions.")
      .widens().total();
  recurrent(declare, "GRU", "A gated recurrent layer with update and reset gates, in one or both directions.")
      .attribute("linear_before_reset", 0)
      .widens().total();
  recurrent(declare, "LSTM", "A long short-term memory layer, in one or both directions.")
      .optional_input("initial_c", "T")
      .optional_input("P", "T")
      .optional_output("Y_c", "T")
      .attribute("input_forget", 0)
      .widens().total();
}

}  // namespace anfora::ops
