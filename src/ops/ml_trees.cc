// Ensembles of decision trees, of ai.onnx.ml.
#include <fmt/format.h>

#include <algorithm>

#include "ops/infer_helpers.h"
#include "ops/registry.h"

namespace anfora::ops {
namespace {

Dim instances(InferenceContext& ctx) {
  auto dims = ctx.dims(0);
  if (!dims) return ctx.unknown();
  if (dims->empty()) ctx.fail("features have rank 1 or 2, not 0");
  return dims->size() == 1 ? ctx.dim(1) : (*dims)[0];
}

Dim targets(InferenceContext& ctx) {
  const int64_t count = ctx.attributes().get_int("n_targets", 1);
  if (count < 1) ctx.fail(fmt::format("an ensemble of {} targets", count));
  return ctx.dim(count);
}

void infer_tree_ensemble(InferenceContext& ctx) { ctx.set_tensor(0, ctx.dtype(0), Dims{instances(ctx), targets(ctx)}); }

void infer_tree_ensemble_regressor(InferenceContext& ctx) {
  ctx.set_tensor(0, DType::F32, Dims{instances(ctx), targets(ctx)});
}

void infer_tree_ensemble_classifier(InferenceContext& ctx) {
  const auto strings = std::ssize(ctx.attributes().get_strings("classlabels_strings"));
  const auto integers = std::ssize(ctx.attributes().get_ints("classlabels_int64s"));
  if (strings == 0 && integers == 0) ctx.fail("no class labels are given");
  ctx.set_tensor(0, strings > 0 ? DType::String : DType::I64, Dims{instances(ctx)});
  if (ctx.num_outputs() > 1)
    ctx.set_tensor(1, DType::F32, Dims{instances(ctx), ctx.dim(strings > 0 ? strings : integers)});
}

// What the two older operators share: the nodes of the trees, and the votes under their own prefix.
void declare_nodes(Declaration& op, const std::string& votes) {
  for (const char* name : {"nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_truenodeids",
                           "nodes_falsenodeids", "nodes_missing_value_tracks_true"}) {
    op.optional_attribute(name, AttributeKind::Ints);
  }
  op.optional_attribute("nodes_modes", AttributeKind::Strings);
  for (const std::string& name : {votes + "_treeids", votes + "_nodeids", votes + "_ids"}) {
    op.optional_attribute(name, AttributeKind::Ints);
  }
  // Doubles come as tensors.
  for (const std::string& name :
       {std::string("nodes_values"), std::string("nodes_hitrates"), votes + "_weights", std::string("base_values")}) {
    op.optional_attribute(name, AttributeKind::Floats);
    op.optional_attribute(name + "_as_tensor", AttributeKind::Tensor);
  }
  op.attribute("post_transform", "NONE");
}

}  // namespace

// ONNX leaves open what a leaf means that is listed twice for a target: converters write such for the paths of decisions, and
// ONNX Runtime takes one of the weights.
constexpr const char* kRegressionDoc =
    "The leaves that each row reaches in all trees, aggregated by target. The weights of a leaf that is listed several times "
    "for one target add up.";

void declare_ml_trees(Declarations& declare) {
  constexpr const char* kDomain = "ai.onnx.ml";
  const std::vector<DType> features = {DType::F32, DType::F64, DType::I64, DType::I32};
  declare.op("TreeEnsemble", 5, kDomain)
      .doc(kRegressionDoc)
      .input("X", "T")
      .output("Y", "T")
      .type("T", {DType::F32, DType::F64, DType::F16})
      .required_attribute("tree_roots", AttributeKind::Ints)
      .required_attribute("nodes_featureids", AttributeKind::Ints)
      .required_attribute("nodes_splits", AttributeKind::Tensor)
      .required_attribute("nodes_modes", AttributeKind::Tensor)
      .required_attribute("nodes_truenodeids", AttributeKind::Ints)
      .required_attribute("nodes_trueleafs", AttributeKind::Ints)
      .required_attribute("nodes_falsenodeids", AttributeKind::Ints)
      .required_attribute("nodes_falseleafs", AttributeKind::Ints)
      .optional_attribute("nodes_missing_value_tracks_true", AttributeKind::Ints)
      .optional_attribute("nodes_hitrates", AttributeKind::Tensor)
      .optional_attribute("membership_values", AttributeKind::Tensor)
      .required_attribute("leaf_targetids", AttributeKind::Ints)
      .required_attribute("leaf_weights", AttributeKind::Tensor)
      .optional_attribute("n_targets", AttributeKind::Int)
      .attribute("aggregate_function", 1)
      .attribute("post_transform", 0)
      .infer(infer_tree_ensemble);
  Declaration regressor = declare.op("TreeEnsembleRegressor", 3, kDomain);
  regressor.doc(kRegressionDoc)
      .input("X", "T")
      .output("Y", "f32")
      .type("T", features)
      .optional_attribute("n_targets", AttributeKind::Int)
      .attribute("aggregate_function", "SUM")
      .infer(infer_tree_ensemble_regressor);
  declare_nodes(regressor, "target");
  Declaration classifier = declare.op("TreeEnsembleClassifier", 3, kDomain);
  classifier.doc("The class of each row by the votes of all trees, and the scores of all classes.")
      .input("X", "T1")
      .output("Y", "T2")
      .output("Z", "f32")
      .type("T1", features)
      .type("T2", {DType::String, DType::I64})
      .optional_attribute("classlabels_strings", AttributeKind::Strings)
      .optional_attribute("classlabels_int64s", AttributeKind::Ints)
      .infer(infer_tree_ensemble_classifier);
  declare_nodes(classifier, "class");
}

}  // namespace anfora::ops
