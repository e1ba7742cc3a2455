// Linear models and support vector machines of ai.onnx.ml.
#include <fmt/format.h>

#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

const std::vector<DType> kFeatures = {DType::F32, DType::F64, DType::I64, DType::I32};

// The number of rows of [N, F]; a vector is one row.
Dim rows(InferenceContext& ctx) {
  auto dims = ctx.dims(0);
  if (!dims) return ctx.unknown();
  if (dims->empty()) ctx.fail("features have rank 1 or 2, not 0");
  return dims->size() == 1 ? ctx.dim(1) : (*dims)[0];
}

Dim features(InferenceContext& ctx) {
  auto dims = ctx.dims(0);
  if (!dims) return ctx.unknown();
  return product(ctx, std::span(*dims).subspan(dims->size() > 1 ? 1 : 0));
}

void set_classification(InferenceContext& ctx, Dim scores) {
  const bool strings = !ctx.attributes().get_strings("classlabels_strings").empty();
  ctx.set_tensor(0, strings ? DType::String : DType::I64, Dims{rows(ctx)});
  if (ctx.num_outputs() > 1) ctx.set_tensor(1, DType::F32, Dims{rows(ctx), scores});
}

int64_t label_count(InferenceContext& ctx) {
  return std::max(std::ssize(ctx.attributes().get_strings("classlabels_strings")),
                  std::ssize(ctx.attributes().get_ints("classlabels_ints")));
}

void infer_linear_classifier(InferenceContext& ctx) {
  const int64_t coefficients = std::ssize(ctx.attributes().get_floats("coefficients"));
  auto width = features(ctx).as_constant();
  Dim scores = ctx.unknown();
  if (width && *width > 0) {
    const int64_t targets = coefficients / *width;
    scores = ctx.dim(targets == 1 ? 2 : targets);
  }
  set_classification(ctx, scores);
}

void infer_linear_regressor(InferenceContext& ctx) {
  const int64_t targets = ctx.attribute_int("targets");
  if (targets < 1) ctx.fail(fmt::format("a linear model of {} targets", targets));
  ctx.set_tensor(0, DType::F32, Dims{rows(ctx), ctx.dim(targets)});
}

void infer_svm_classifier(InferenceContext& ctx) {
  const auto supports = ctx.attributes().get_ints("vectors_per_class");
  int64_t support_count = 0;
  for (int64_t count : supports) support_count += count;
  const int64_t classes = support_count > 0 ? std::ssize(supports) : label_count(ctx);
  const bool pairs = support_count > 0 && classes > 2 && ctx.attributes().get_floats("prob_a").empty();
  set_classification(ctx, ctx.dim(pairs ? classes * (classes - 1) / 2 : classes));
}

void infer_svm_regressor(InferenceContext& ctx) { ctx.set_tensor(0, DType::F32, Dims{rows(ctx), ctx.dim(1)}); }

constexpr const char* kModelDomain = "ai.onnx.ml";

}  // namespace

void declare_ml_models(Declarations& declare) {
  declare.op("LinearClassifier", 1, kModelDomain)
      .doc("The class of each row by a linear model, and the scores of all classes.")
      .input("X", "T1")
      .output("Y", "T2")
      .output("Z", "f32")
      .type("T1", kFeatures)
      .type("T2", {DType::String, DType::I64})
      .required_attribute("coefficients", AttributeKind::Floats)
      .optional_attribute("intercepts", AttributeKind::Floats)
      .attribute("multi_class", 0)
      .attribute("post_transform", "NONE")
      .optional_attribute("classlabels_strings", AttributeKind::Strings)
      .optional_attribute("classlabels_ints", AttributeKind::Ints)
      .infer(infer_linear_classifier);
  declare.op("LinearRegressor", 1, kModelDomain)
      .doc("The values of each row by a linear model.")
      .input("X", "T")
      .output("Y", "f32")
      .type("T", kFeatures)
      .optional_attribute("coefficients", AttributeKind::Floats)
      .optional_attribute("intercepts", AttributeKind::Floats)
      .attribute("targets", 1)
      .attribute("post_transform", "NONE")
      .infer(infer_linear_regressor);
  declare.op("SVMClassifier", 1, kModelDomain)
      .doc("The class of each row by support vector machines for all pairs of classes, and scores or probabilities.")
      .input("X", "T1")
      .output("Y", "T2")
      .output("Z", "f32")
      .type("T1", kFeatures)
      .type("T2", {DType::String, DType::I64})
      .attribute("kernel_type", "LINEAR")
      .optional_attribute("kernel_params", AttributeKind::Floats)
      .optional_attribute("vectors_per_class", AttributeKind::Ints)
      .optional_attribute("support_vectors", AttributeKind::Floats)
      .optional_attribute("coefficients", AttributeKind::Floats)
      .optional_attribute("rho", AttributeKind::Floats)
      .optional_attribute("prob_a", AttributeKind::Floats)
      .optional_attribute("prob_b", AttributeKind::Floats)
      .attribute("post_transform", "NONE")
      .optional_attribute("classlabels_strings", AttributeKind::Strings)
      .optional_attribute("classlabels_ints", AttributeKind::Ints)
      .infer(infer_svm_classifier);
  declare.op("SVMRegressor", 1, kModelDomain)
      .doc("The value of each row by a support vector machine, or whether it belongs to the one class learned.")
      .input("X", "T")
      .output("Y", "f32")
      .type("T", kFeatures)
      .attribute("kernel_type", "LINEAR")
      .optional_attribute("kernel_params", AttributeKind::Floats)
      .attribute("n_supports", 0)
      .attribute("one_class", 0)
      .optional_attribute("support_vectors", AttributeKind::Floats)
      .optional_attribute("coefficients", AttributeKind::Floats)
      .optional_attribute("rho", AttributeKind::Floats)
      .attribute("post_transform", "NONE")
      .infer(infer_svm_regressor);
}

}  // namespace anfora::ops
