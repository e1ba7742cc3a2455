#include <fmt/format.h>

#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

// The loss: a scalar, or one number for each label.
void infer_loss(InferenceContext& ctx) {
  if (auto rank = ctx.rank(0); rank && *rank < 2) ctx.fail(fmt::format("scores of rank {} have no classes", *rank));
  if (ctx.attribute_string("reduction") != "none") return ctx.set_tensor(0, ctx.dtype(0), Dims{});
  if (auto dims = ctx.dims(1))
    ctx.set_tensor(0, ctx.dtype(0), {dims->data(), dims->size()});
  else
    ctx.set_unranked(0, ctx.dtype(0));
}

void infer_cross_entropy(InferenceContext& ctx) {
  infer_loss(ctx);
  ctx.set_output(1, ctx.input(0));
}

}  // namespace

void declare_loss(Declarations& declare) {
  const std::vector<DType> labels = {DType::I32, DType::I64};
  declare.op("NegativeLogLikelihoodLoss", 22)
      .doc("−input at the target class, weighted by class; its mean, sum, or each.")
      .input("input", "T")
      .input("target", "Tind")
      .optional_input("weight", "T")
      .output("loss", "T")
      .type("T", kFloats)
      .type("Tind", labels)
      .optional_attribute("ignore_index", AttributeKind::Int)
      .attribute("reduction", "mean")
      .infer(infer_loss)
      .flops(flops_per_input_element<1>);
  declare.op("SoftmaxCrossEntropyLoss", 13)
      .doc("NegativeLogLikelihoodLoss of LogSoftmax(scores) along axis 1.")
      .input("scores", "T")
      .input("labels", "Tind")
      .optional_input("weights", "T")
      .output("output", "T")
      .optional_output("log_prob", "T")
      .type("T", kFloats)
      .type("Tind", labels)
      .optional_attribute("ignore_index", AttributeKind::Int)
      .attribute("reduction", "mean")
      .infer(infer_cross_entropy)
      .flops(flops_per_input_element<20>);
}

}  // namespace anfora::ops
