// Random tensors. Without a seed they draw from the executable's random state.
#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

void infer_random(InferenceContext& ctx) {
  Dims dims;
  for (int64_t d : ctx.attributes().get_ints("shape")) {
    if (d < 0) ctx.fail("a dimension is negative");
    dims.push_back(ctx.dim(d));
  }
  ctx.set_tensor(0, dtype_attribute(ctx, "dtype", DType::F32), dims);
}

void infer_random_like(InferenceContext& ctx) {
  DType dtype = dtype_attribute(ctx, "dtype", ctx.dtype(0));
  auto dims = ctx.dims(0);
  if (!dims) return ctx.set_unranked(0, dtype);
  ctx.set_tensor(0, dtype, *dims);
}

void infer_multinomial(InferenceContext& ctx) {
  require_rank(ctx, 0, 2);
  Dim batch = ctx.rank(0) ? ctx.input(0)->dim(0) : ctx.unknown();
  ctx.set_tensor(0, dtype_attribute(ctx, "dtype", DType::I32), Dims{batch, ctx.dim(ctx.attribute_int("sample_size"))});
}

}  // namespace

void declare_random(Declarations& declare) {
  declare.op("RandomNormal", 22)
      .doc("Normally distributed numbers.")
      .output("output", "T")
      .type("T", kFloats)
      .required_attribute("shape", AttributeKind::Ints)
      .attribute("dtype", static_cast<int>(DType::F32))
      .attribute("mean", 0.0f)
      .attribute("scale", 1.0f)
      .optional_attribute("seed", AttributeKind::Float)
      .infer(infer_random)
      .effect(Effect::Random);
  declare.op("RandomUniform", 22)
      .doc("Uniformly distributed numbers.")
      .output("output", "T")
      .type("T", kFloats)
      .required_attribute("shape", AttributeKind::Ints)
      .attribute("dtype", static_cast<int>(DType::F32))
      .attribute("low", 0.0f)
      .attribute("high", 1.0f)
      .optional_attribute("seed", AttributeKind::Float)
      .infer(infer_random)
      .effect(Effect::Random);
  declare.op("RandomNormalLike", 22)
      .doc("Normally distributed numbers in the shape of the input.")
      .input("input", "T1")
      .output("output", "T2")
      .type("T1", kPlainDTypes)
      .type("T2", kFloats)
      .optional_attribute("dtype", AttributeKind::Int)
      .attribute("mean", 0.0f)
      .attribute("scale", 1.0f)
      .optional_attribute("seed", AttributeKind::Float)
      .infer(infer_random_like)
      .effect(Effect::Random);
  declare.op("RandomUniformLike", 22)
      .doc("Uniformly distributed numbers in the shape of the input.")
      .input("input", "T1")
      .output("output", "T2")
      .type("T1", kPlainDTypes)
      .type("T2", kFloats)
      .optional_attribute("dtype", AttributeKind::Int)
      .attribute("low", 0.0f)
      .attribute("high", 1.0f)
      .optional_attribute("seed", AttributeKind::Float)
      .infer(infer_random_like)
      .effect(Effect::Random);
  declare.op("Bernoulli", 22)
      .doc("1 with the probability that the input gives, else 0.")
      .input("input", "T1")
      .output("output", "T2")
      .type("T1", kFloats)
      .type("T2", kNumbers | std::vector<DType>{DType::Bool})
      .optional_attribute("dtype", AttributeKind::Int)
      .optional_attribute("seed", AttributeKind::Float)
      .infer(infer_random_like)
      .effect(Effect::Random);
  declare.op("Multinomial", 22)
      .doc("Samples of classes, of which the input holds the logarithms of their weights.")
      .input("input", "T1")
      .output("output", "T2")
      .type("T1", kFloats)
      .type("T2", {DType::I32, DType::I64})
      .attribute("dtype", static_cast<int>(DType::I32))
      .attribute("sample_size", 1)
      .optional_attribute("seed", AttributeKind::Float)
      .infer(infer_multinomial)
      .effect(Effect::Random);
}

}  // namespace anfora::ops
