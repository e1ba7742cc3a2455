// Losses against their definitions.
#include "kernel_values.h"

namespace anfora {
namespace {

struct LossCase {
  std::vector<int64_t> inner;
  bool weighted;
  std::string reduction;
  std::optional<int64_t> ignored;
};

Tensor label_tensor(DType dtype, const std::vector<int64_t>& shape, const std::vector<int64_t>& labels) {
  return tensor_of(dtype, shape, {labels.begin(), labels.end()});
}

void check_loss(const LossCase& c, DType dtype, bool softmax) {
  constexpr int64_t batch = 3, classes = 5;
  std::vector<int64_t> shape{batch, classes}, label_shape{batch};
  shape.insert(shape.end(), c.inner.begin(), c.inner.end());
  label_shape.insert(label_shape.end(), c.inner.begin(), c.inner.end());
  const int64_t inner = elements(c.inner);
  const Tensor scores = random_tensor(dtype, shape, 1), weights = random_tensor(dtype, {classes}, 2, 0.5, 2);
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < batch * inner; ++i) {
    labels.push_back(c.ignored && i % 3 == 1 ? *c.ignored : (i * 7 + 2) % classes);
  }
  std::vector<double> x = doubles(scores), logarithms, each;
  double total = 0, share = 0;
  for (int64_t i = 0; i < scores.size(); ++i) {
    const int64_t first = i / (classes * inner) * classes * inner + i % inner;
    double sum = 0;
    for (int64_t k = 0; k < classes; ++k) sum += std::exp(x[first + k * inner]);
    logarithms.push_back(softmax ? x[i] - std::log(sum) : x[i]);
  }
  for (int64_t i = 0; i < batch * inner; ++i) {
    const bool counts = labels[i] != c.ignored;
    const double weight = !counts ? 0 : c.weighted ? doubles(weights)[labels[i]] : 1;
    const int64_t at = i / inner * classes * inner + (counts ? labels[i] : 0) * inner + i % inner;
    each.push_back(counts ? -logarithms[at] * weight : 0);
    total += each.back();
    share += weight;
  }
  std::vector<std::pair<std::string, AttributeValue>> attributes{{"reduction", c.reduction}};
  if (c.ignored) attributes.emplace_back("ignore_index", *c.ignored);
  std::vector<Tensor> inputs{scores, label_tensor(c.weighted ? DType::I32 : DType::I64, label_shape, labels)};
  if (c.weighted) inputs.push_back(weights);
  const std::vector<Tensor> got = run_kernel(softmax ? "SoftmaxCrossEntropyLoss" : "NegativeLogLikelihoodLoss",
                                             AttributeSet(attributes), inputs, softmax ? 2 : 1);
  if (c.reduction == "none")
    EXPECT_EQ(got[0].shape(), Shape(label_shape.begin(), label_shape.end()));
  else
    EXPECT_EQ(got[0].rank(), 0);
  expect_close(got[0],
               c.reduction == "none" ? each : std::vector<double>{c.reduction == "sum" ? total : total / share});
  if (softmax) expect_close(got[1], logarithms);
}

TEST(Loss, EveryReductionWeightAndRank) {
  for (DType dtype : {DType::F32, DType::F64, DType::F16, DType::BF16}) {
    for (const std::vector<int64_t>& inner : {std::vector<int64_t>{}, {4}, {2, 3}, {2, 1, 3}}) {
      for (const char* reduction : {"none", "sum", "mean"}) {
        for (bool weighted : {false, true}) {
          for (std::optional<int64_t> ignored : {std::optional<int64_t>{}, {0}, {-1}, {100}}) {
            check_loss({inner, weighted, reduction, ignored}, dtype, false);
            check_loss({inner, weighted, reduction, ignored}, dtype, true);
          }
        }
      }
    }
  }
}

TEST(Loss, LabelsOutOfRange) {
  const Tensor scores = random_tensor(DType::F32, {2, 3}, 1);
  for (int64_t label : {-1, 3}) {
    const Tensor labels = make_tensor<int64_t>({2}, {0, label});
    EXPECT_THROW(run_kernel("NegativeLogLikelihoodLoss", {}, {scores, labels}), Error);
    EXPECT_THROW(run_kernel("SoftmaxCrossEntropyLoss", {}, {scores, labels}), Error);
  }
  EXPECT_THROW(run_kernel("NegativeLogLikelihoodLoss", {}, {scores, make_tensor<int64_t>({3}, {0, 0, 0})}), Error);
  EXPECT_THROW(run_kernel("NegativeLogLikelihoodLoss", {{"reduction", std::string("median")}},
                          {scores, make_tensor<int64_t>({2}, {0, 0})}),
               Error);
}

TEST(Loss, OfNothing) {
  const std::vector<Tensor> none{Tensor::allocate(DType::F32, Shape{0, 3}), Tensor::allocate(DType::I64, Shape{0})};
  EXPECT_TRUE(std::isnan(doubles(run_kernel("NegativeLogLikelihoodLoss", {}, none)[0])[0]));
  EXPECT_EQ(doubles(run_kernel("SoftmaxCrossEntropyLoss", {{"reduction", std::string("sum")}}, none)[0])[0], 0);
}

}  // namespace
}  // namespace anfora
