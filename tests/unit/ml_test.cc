// Operators of ai.onnx.ml where ONNX Runtime, which the differential tests compare with, is no measure: maps, the newest
// tree ensemble, and what is refused.
#include <gtest/gtest.h>

#include <limits>

#include "kernels/reference/prepared.h"
#include "run_kernel.h"

namespace anfora {
namespace {

using Ints = std::vector<int64_t>;
using Strings = std::vector<std::string>;

Datum run(std::string_view op, const AttributeSet& attributes, const Datum& input) {
  const Datum* inputs[] = {&input};
  Datum output;
  kernels::KernelContext context(attributes, inputs, {&output, 1});
  kernels::reference_kernels().find(op)(context);
  return output;
}

Datum map_of(const Ints& keys, const std::vector<float>& values) {
  return Datum::map(Tensor::vector<int64_t>(keys), Tensor::vector<float>(values));
}

TEST(ZipMap, OneMapARow) {
  const Tensor scores = make_tensor<float>({2, 2}, {1, 2, 3, 4});
  const Datum maps = run("ai.onnx.ml::ZipMap", {{"classlabels_strings", Strings{"no", "yes"}}}, scores);
  ASSERT_EQ(maps.items().size(), 2u);
  EXPECT_EQ(values_of<std::string>(maps.items()[1].as_map().keys), (Strings{"no", "yes"}));
  EXPECT_EQ(values_of<float>(maps.items()[1].as_map().values), (std::vector<float>{3, 4}));
  EXPECT_THROW(run("ai.onnx.ml::ZipMap", {{"classlabels_int64s", Ints{1, 2, 3}}}, scores), Error);
}

TEST(CastMap, DenseInTheOrderOfKeysSparseAtThem) {
  const Datum map = map_of({3, 1}, {2.5f, -1});
  EXPECT_EQ(values_of<float>(run("ai.onnx.ml::CastMap", {}, map).tensor()), (std::vector<float>{-1, 2.5f}));
  const AttributeSet sparse = {
      {"map_form", std::string("SPARSE")}, {"max_map", int64_t{4}}, {"cast_to", std::string("TO_INT64")}};
  EXPECT_EQ(values_of<int64_t>(run("ai.onnx.ml::CastMap", sparse, map).tensor()), (Ints{0, -1, 0, 2}));
  EXPECT_THROW(run("ai.onnx.ml::CastMap", sparse.with("max_map", int64_t{3}), map), Error);
}

TEST(DictVectorizer, AbsentKeysAreZero) {
  const Datum map = map_of({7, 5}, {2.5f, -1});
  const Datum row = run("ai.onnx.ml::DictVectorizer", {{"int64_vocabulary", Ints{5, 6, 7}}}, map);
  EXPECT_EQ(row.tensor().shape(), (Shape{1, 3}));
  EXPECT_EQ(values_of<float>(row.tensor()), (std::vector<float>{-1, 0, 2.5f}));
}

// Feature 0 a member of {1, 4} ? leaf 0 : (feature 1 < 0.5 ? leaf 1 : leaf 2), where NaN goes to leaf 1.
AttributeSet small_ensemble() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  return {{"tree_roots", Ints{0}},
          {"n_targets", int64_t{2}},
          {"nodes_featureids", Ints{0, 1}},
          {"nodes_modes", make_tensor<uint8_t>({2}, {6, 1})},
          {"nodes_splits", make_tensor<float>({2}, {0, 0.5f})},
          {"nodes_truenodeids", Ints{0, 1}},
          {"nodes_trueleafs", Ints{1, 1}},
          {"nodes_falsenodeids", Ints{1, 2}},
          {"nodes_falseleafs", Ints{0, 1}},
          {"nodes_missing_value_tracks_true", Ints{0, 1}},
          {"membership_values", make_tensor<float>({3}, {4, 1, nan})},
          {"leaf_targetids", Ints{0, 1, 1}},
          {"leaf_weights", make_tensor<float>({3}, {10, 20, 30})}};
}

TEST(TreeEnsemble, MembersAndMissingValues) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = make_tensor<float>({4, 2}, {4, 9, 2, 0, 2, 9, nan, nan});
  const std::vector<float> expected = {10, 0, 0, 20, 0, 30, 0, 20};
  const AttributeSet attributes = small_ensemble();
  EXPECT_EQ(values_of<float>(run_kernel("ai.onnx.ml::TreeEnsemble", attributes, {x})[0]), expected);

  kernels::KernelData data{"ai.onnx.ml::TreeEnsemble", attributes, {{true, DType::F32, {}, {}}}};
  const auto kernel = kernels::prepared_reference_kernels().prepare(data);
  ASSERT_TRUE(kernel);
  const Datum input(x);
  const Datum* inputs[] = {&input};
  Datum output;
  kernels::PreparedRun(*kernel).run(attributes, inputs, {&output, 1});
  EXPECT_EQ(values_of<float>(output.tensor()), expected);
}

TEST(TreeEnsemble, BrokenTreesAreRefused) {
  const Tensor x = make_tensor<float>({1, 2}, {2, 9});
  auto refused = [&](const AttributeSet& attributes) {
    EXPECT_THROW(run_kernel("ai.onnx.ml::TreeEnsemble", attributes, {x}), Error);
  };
  refused(small_ensemble().with("nodes_falseleafs", Ints{0, 0}));                                         // node 2 of 2
  refused(small_ensemble().with("nodes_falsenodeids", Ints{1, 0}).with("nodes_falseleafs", Ints{0, 0}));  // a circle
  refused(small_ensemble().with("nodes_truenodeids", Ints{0, 9}));
  refused(small_ensemble().with("nodes_featureids", Ints{0, 2}));
  refused(small_ensemble().with("leaf_targetids", Ints{0, 1, 2}));
  refused(small_ensemble().with("nodes_modes", make_tensor<uint8_t>({2}, {6, 7})));
  refused(small_ensemble().without("leaf_weights"));
}

TEST(TreeEnsembleClassifier, OfTwoClassesBothVotedForTheHigherWins) {
  const AttributeSet stump = {{"nodes_treeids", Ints{0, 0, 0}},
                              {"nodes_nodeids", Ints{0, 1, 2}},
                              {"nodes_featureids", Ints{0, 0, 0}},
                              {"nodes_modes", Strings{"BRANCH_LEQ", "LEAF", "LEAF"}},
                              {"nodes_values", std::vector<float>{0, 0, 0}},
                              {"nodes_truenodeids", Ints{1, 0, 0}},
                              {"nodes_falsenodeids", Ints{2, 0, 0}},
                              {"class_treeids", Ints{0, 0, 0, 0}},
                              {"class_nodeids", Ints{1, 1, 2, 2}},
                              {"class_ids", Ints{0, 1, 0, 1}},
                              {"class_weights", std::vector<float>{0.75f, 0.25f, 0.125f, 0.875f}},
                              {"classlabels_strings", Strings{"a", "b"}}};
  const auto results =
      run_kernel("ai.onnx.ml::TreeEnsembleClassifier", stump, {make_tensor<float>({2, 1}, {-1, 1})}, 2);
  EXPECT_EQ(values_of<std::string>(results[0]), (Strings{"a", "b"}));
  EXPECT_EQ(values_of<float>(results[1]), (std::vector<float>{0.75f, 0.25f, 0.125f, 0.875f}));
}

}  // namespace
}  // namespace anfora
