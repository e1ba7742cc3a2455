#include <fmt/format.h>

#include "ops/elementary.h"
#include "ops/infer_helpers.h"
#include "ops/layouts.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

void infer_batch_normalization(InferenceContext& ctx) {
  infer_same_type(ctx);
  auto x = ctx.dims(0);
  if (x && x->empty()) ctx.fail("the input is a scalar; it needs a batch axis");
  if (x && x->size() == 1) x->push_back(ctx.dim(1));  // a vector has one channel
  for (size_t i = 1; i <= 4; ++i) {
    require_rank(ctx, i, 1);
    auto dims = ctx.dims(i);
    if (x && dims && provably_different((*x)[1], (*dims)[0])) {
      ctx.fail(fmt::format("input {} has {} channels, the data {}", i, to_string((*dims)[0]), to_string((*x)[1])));
    }
  }
  for (size_t i : {1u, 2u}) {
    if (ctx.num_outputs() > i) ctx.set_output(i, ctx.input(i + 2));  // the running mean and variance
  }
}

void infer_over_channels(InferenceContext& ctx) {
  infer_same_type(ctx);
  auto rank = ctx.rank(0);
  if (rank && *rank < 2) ctx.fail(fmt::format("the input has rank {}; it needs a batch and a channel axis", *rank));
  require_rank(ctx, 1, 1);
  require_rank(ctx, 2, 1);
}

void infer_layer_normalization(InferenceContext& ctx) {
  infer_same_type(ctx);
  // Mean and InvStdDev keep the dimensions before the axis; their type is what the statistics are computed in.
  const DType stash = dtype_attribute(ctx, "stash_type", DType::F32);
  auto dims = ctx.dims(0);
  if (dims) {
    const int axis = ctx.normalize_axis(ctx.attribute_int("axis"), static_cast<int>(dims->size()));
    for (size_t i = static_cast<size_t>(axis); i < dims->size(); ++i) (*dims)[i] = ctx.dim(1);
  }
  for (size_t i = 1; i < ctx.num_outputs(); ++i) {
    if (dims)
      ctx.set_tensor(i, stash, {dims->data(), dims->size()});
    else
      ctx.set_unranked(i, stash);
  }
}

void infer_rms_normalization(InferenceContext& ctx) {
  auto dims = ctx.dims(0);
  if (!dims) return ctx.set_unranked(0, ctx.dtype(1));
  ctx.normalize_axis(ctx.attribute_int("axis"), static_cast<int>(dims->size()));
  ctx.set_tensor(0, ctx.dtype(1), {dims->data(), dims->size()});
}

void infer_along_axis(InferenceContext& ctx) {
  infer_same_type(ctx);
  if (auto rank = ctx.rank(0)) ctx.normalize_axis(ctx.attribute_int("axis"), *rank);
}

void infer_dropout(InferenceContext& ctx) {
  infer_same_type(ctx);
  for (const size_t scalar : {1, 2}) require_scalar(ctx, scalar);
  if (ctx.num_outputs() < 2) return;
  if (auto dims = ctx.dims(0))
    ctx.set_tensor(1, DType::Bool, {dims->data(), dims->size()});
  else
    ctx.set_unranked(1, DType::Bool);
}

}  // namespace

void declare_normalization(Declarations& declare) {
  declare.op("BatchNormalization", 15)
      .doc(
          "(X − mean) / √(var + epsilon) · scale + B by channel. In training mode the mean and variance are those of "
          "the batch, and the running ones are updated.")
      .input("X", "T")
      .input("scale", "T1")
      .input("B", "T1")
      .input("input_mean", "T2")
      .input("input_var", "T2")
      .output("Y", "T")
      .optional_output("running_mean", "T2")
      .optional_output("running_var", "T2")
      .type("T", kFloats)
      .type("T1", kFloats)
      .type("T2", kFloats)
      .attribute("epsilon", 1e-5f)
      .attribute("momentum", 0.9f)
      .attribute("training_mode", 0)
      .infer(infer_batch_normalization)
      .flops(flops_per_element<2>)
      .in_place()
      .widens().layout(channels_last_normalization).total();
  declare.op("InstanceNormalization", 22)
      .doc("Each channel of each instance normalized to mean 0 and variance 1, then scaled and shifted.")
      .input("input", "T")
      .input("scale", "T")
      .input("B", "T")
      .output("output", "T")
      .type("T", kFloats)
      .attribute("epsilon", 1e-5f)
      .infer(infer_over_channels)
      .flops(channel_normalization_flops)
      .in_place()
      .widens().layout(channels_last_normalization).sums().total();
  declare.op("GroupNormalization", 21)
      .doc("Each group of channels of each instance normalized, then scaled and shifted by channel.")
      .input("X", "T")
      .input("scale", "T")
      .input("bias", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .attribute("epsilon", 1e-5f)
      .required_attribute("num_groups", AttributeKind::Int)
      .attribute("stash_type", 1)
      .infer(infer_over_channels)
      .flops(channel_normalization_flops)
      .in_place()
      .widens().layout(channels_last_normalization).sums().total();
  declare.op("LayerNormalization", 17)
      .doc("The dimensions from the axis on normalized to mean 0 and variance 1, then scaled and shifted.")
      .input("X", "T")
      .input("Scale", "T")
      .optional_input("B", "T")
      .output("Y", "T")
      .optional_output("Mean", "U")
      .optional_output("InvStdDev", "U")
      .type("T", kFloats)
      .type("U", {DType::F32, DType::BF16})
      .attribute("axis", -1)
      .attribute("epsilon", 1e-5f)
      .attribute("stash_type", 1)
      .infer(infer_layer_normalization)
      .flops(layer_normalization_flops)
      .in_place()
      .axis().widens().total();
  declare.op("RMSNormalization", 23)
      .doc("x / √(mean of squares + epsilon) · scale over the dimensions from the axis on.")
      .input("X", "T")
      .input("scale", "V")
      .output("Y", "V")
      .type("T", kFloats)
      .type("V", kFloats)
      .attribute("axis", -1)
      .attribute("epsilon", 1e-5f)
      .attribute("stash_type", 1)
      .infer(infer_rms_normalization)
      .flops(rms_normalization_flops)
      .in_place()
      .widens().total();
  declare.op("LpNormalization", 22)
      .doc("x over its norm of order 1 or 2 along the axis.")
      .input("input", "T")
      .output("output", "T")
      .type("T", kFloats)
      .attribute("axis", -1)
      .attribute("p", 2)
      .infer(infer_along_axis)
      .flops(flops_per_element<3>)
      .in_place()
      .axis().widens();
  declare.op("MeanVarianceNormalization", 13)
      .doc("(x − mean) / standard deviation over the axes.")
      .input("X", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .attribute("axes", std::vector<int64_t>{0, 2, 3})
      .infer(infer_same_type)
      .flops(flops_per_element<kNormalized>)
      .in_place()
      .widens();
  declare.op("LRN", 13)
      .doc("x / (bias + alpha / size · the sum of squares over `size` neighbouring channels) to the power beta.")
      .input("X", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .attribute("alpha", 1e-4f)
      .attribute("beta", 0.75f)
      .attribute("bias", 1.0f)
      .required_attribute("size", AttributeKind::Int)
      .infer(infer_same_type)
      .flops(flops_per_element<25>)
      .widens().total();
  declare.op("Dropout", 22)
      .doc(
          "In training mode: elements are zeroed with probability `ratio`, the others scaled by 1 / (1 − ratio). "
          "Otherwise: the data.")
      .input("data", "T")
      .optional_input("ratio", "T1")
      .optional_input("training_mode", "T2")
      .output("output", "T")
      .optional_output("mask", "T2")
      .type("T", kFloats | kFloat8s)
      .type("T1", kFloats | kFloat8s)
      .type("T2", {DType::Bool})
      .optional_attribute("seed", AttributeKind::Int)
      .infer(infer_dropout)
      .flops(flops_per_element<2>)
      .effect(Effect::Random)
      .in_place()
      .total();
}

}  // namespace anfora::ops
