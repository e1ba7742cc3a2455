#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

// Inputs after the learning rate and the update count: `Kinds` groups of n tensors (the parameters, the gradients, then
// the optimizer's state). Outputs: the new parameters, then the new state.
template <int Kinds>
void infer_update(InferenceContext& ctx) {
  const size_t tensors = ctx.num_inputs() - 2;
  if (ctx.num_inputs() < 2 || tensors % Kinds != 0) {
    ctx.fail("the tensors after the first two inputs do not divide into groups of equal size");
  }
  const size_t n = tensors / Kinds;
  for (size_t i = 0; i < n; ++i) ctx.set_output(i, ctx.input(2 + i));
  for (size_t i = n; i < (Kinds - 1) * n; ++i) ctx.set_output(i, ctx.input(2 + n + i));  // the gradients have no output
}

double update_flops(const InferenceContext& ctx) {
  double elements = 0;
  for (size_t i = 2; i < ctx.num_inputs(); ++i) elements += element_estimate(ctx.input(i));
  return 4 * elements;
}

Declaration update(Declarations& declare, const char* name, const char* doc) {
  return declare.op(name, 1, "ai.onnx.preview.training")
      .doc(doc)
      .input("R", "T1")
      .input("T", "T2")
      .variadic_input("inputs", "T3")
      .variadic_output("outputs", "T3")
      .type("T1", {DType::F32, DType::F64})
      .type("T2", {DType::I64})
      .type("T3", {DType::F32, DType::F64})
      .attribute("norm_coefficient", 0.0f)
      .flops(update_flops);
}

}  // namespace

void declare_training(Declarations& declare) {
  update(declare, "Adagrad", "One step of Adagrad on tensors X with gradients G and accumulated squares H.")
      .attribute("decay_factor", 0.0f)
      .attribute("epsilon", 1e-6f)
      .infer(infer_update<3>);
  update(declare, "Adam", "One step of Adam on tensors X with gradients G and moments V and H.")
      .attribute("alpha", 0.9f)
      .attribute("beta", 0.999f)
      .attribute("epsilon", 1e-6f)
      .attribute("norm_coefficient_post", 0.0f)
      .infer(infer_update<4>);
  declare.op("Momentum", 1, "ai.onnx.preview.training")
      .doc("One step of gradient descent with standard or Nesterov momentum V on tensors X with gradients G.")
      .input("R", "T1")
      .input("T", "T2")
      .variadic_input("inputs", "T3")
      .variadic_output("outputs", "T3")
      .type("T1", {DType::F32, DType::F64})
      .type("T2", {DType::I64})
      .type("T3", {DType::F32, DType::F64})
      .required_attribute("alpha", AttributeKind::Float)
      .required_attribute("beta", AttributeKind::Float)
      .required_attribute("mode", AttributeKind::String)
      .required_attribute("norm_coefficient", AttributeKind::Float)
      .infer(infer_update<3>)
      .flops(update_flops);
}

}  // namespace anfora::ops
