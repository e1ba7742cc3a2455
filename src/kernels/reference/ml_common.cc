#include "kernels/reference/ml_common.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/reference/arguments.h"

namespace anfora::kernels {

FeatureRows::FeatureRows(const Tensor& tensor) : tensor_(tensor) {
  if (tensor.rank() < 1) refuse("features have rank 1 or 2, not 0");
  if (tensor.rank() > 1) rows_ = tensor.dim(0);
  features_ = extent(tensor.shape(), tensor.rank() > 1 ? 1 : 0, tensor.rank());
}

void FeatureRows::read(int64_t row, std::span<double> to) const {
  dispatch<FeatureTypes>(tensor_.dtype(), [&]<class T>() {
    auto from = tensor_.data<T>().subspan(static_cast<size_t>(row * features_), static_cast<size_t>(features_));
    std::ranges::transform(from, to.begin(), [](T value) { return static_cast<double>(value); });
  });
}

PostTransform post_transform(std::string_view name) {
  if (name == "NONE") return PostTransform::None;
  if (name == "SOFTMAX") return PostTransform::Softmax;
  if (name == "LOGISTIC") return PostTransform::Logistic;
  if (name == "SOFTMAX_ZERO") return PostTransform::SoftmaxZero;
  if (name == "PROBIT") return PostTransform::Probit;
  refuse("'{}' is no post_transform", name);
}

PostTransform post_transform(int64_t number) {
  if (number < 0 || number > static_cast<int64_t>(PostTransform::Probit)) refuse("{} is no post_transform", number);
  return static_cast<PostTransform>(number);
}

double logistic(double x) {
  const double e = std::exp(-std::abs(x));
  return (x < 0 ? e : 1) / (1 + e);
}

// The quantile of the normal distribution, with the inverse error function by Winitzki's approximation (good to three
// digits): models are trained and compared with runtimes that use it.
static double probit(double p) {
  constexpr double kShape = 0.147;
  const double x = 2 * p - 1;
  const double log = std::log((1 - x) * (1 + x));
  const double half = 2 / (std::numbers::pi * kShape) + log / 2;
  return std::numbers::sqrt2 * std::copysign(std::sqrt(std::sqrt(half * half - log / kShape) - half), x);
}

// SOFTMAX_ZERO: scores that are zero take no part and stay so.
static void softmax(std::span<double> scores, bool keep_zeros) {
  constexpr double kZero = 1e-7;
  if (scores.empty()) return;
  const double most = std::ranges::max(scores);
  double sum = 0;
  for (double& score : scores) {
    if (keep_zeros && std::abs(score) <= kZero) continue;
    score = std::exp(score - most);
    sum += score;
  }
  if (sum == 0) return;
  for (double& score : scores) score /= sum;
}

void transform_scores(PostTransform transform, std::span<double> scores) {
  if (scores.size() == 1 && transform != PostTransform::Probit) return;
  switch (transform) {
    case PostTransform::None: return;
    case PostTransform::Softmax: return softmax(scores, false);
    case PostTransform::SoftmaxZero: return softmax(scores, true);
    case PostTransform::Logistic: std::ranges::transform(scores, scores.begin(), logistic); return;
    case PostTransform::Probit: std::ranges::transform(scores, scores.begin(), probit); return;
  }
}

void set_binary_scores(PostTransform transform, double score, bool complement, std::span<double> scores) {
  const bool is_logistic = transform == PostTransform::Logistic;
  scores[0] = is_logistic ? logistic(-score) : complement ? 1 - score : -score;
  scores[1] = is_logistic ? logistic(score) : score;
  if (transform == PostTransform::Probit) transform_scores(transform, scores);
}

size_t index_of_maximum(std::span<const double> scores) {
  return static_cast<size_t>(std::ranges::max_element(scores) - scores.begin());
}

ClassLabels::ClassLabels(const AttributeSet& attributes, const char* integers, const char* strings)
    : integers_(attributes.ints(integers)), strings_(attributes.strings(strings)) {}

void ClassLabels::write(KernelContext& context, std::span<const int64_t> classes) const {
  const int64_t rows = std::ssize(classes);
  if (of_strings()) {
    auto labels = context.allocate_output(0, DType::String, {{rows}}).data<std::string>();
    for (size_t i = 0; i < classes.size(); ++i) labels[i] = strings_[static_cast<size_t>(classes[i])];
  } else {
    auto labels = context.allocate_output(0, DType::I64, {{rows}}).data<int64_t>();
    for (size_t i = 0; i < classes.size(); ++i) {
      const auto index = static_cast<size_t>(classes[i]);
      labels[i] = index < integers_.size() ? integers_[index] : classes[i];
    }
  }
}

void ScoreTable::write(KernelContext& context, size_t output) const {
  if (context.num_outputs() <= output) return;
  const auto width = static_cast<int64_t>(width_);
  const int64_t shape[] = {width == 0 ? 0 : std::ssize(scores_) / width, width};
  auto to = context.allocate_output(output, DType::F32, shape).data<float>();
  std::ranges::transform(scores_, to.begin(), [](double v) { return static_cast<float>(v); });
}

}  // namespace anfora::kernels
