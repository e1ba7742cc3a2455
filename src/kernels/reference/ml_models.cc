// Linear models and support vector machines.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "kernels/reference/arguments.h"
#include "kernels/reference/families.h"
#include "kernels/reference/ml_common.h"
#include "support/parallel.h"
#include "support/scratch.h"

namespace anfora::kernels {
namespace {

// Multiplications that are worth a thread.
constexpr int64_t kWork = 16384;

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

ScratchVector<double> doubles(const AttributeSet& attributes, std::string_view name) {
  const std::span<const float> floats = attributes.floats(name);
  return {floats.begin(), floats.end()};
}

// Calls body(row, features) for each row, on several threads.
template <class Body>
void for_each_instance(const FeatureRows& rows, int64_t cost, Body&& body) {
  parallel_for(rows.rows(), grain_of(kWork, cost), [&](int64_t begin, int64_t end) {
    Scratch<double> features(static_cast<size_t>(rows.features()));
    for (int64_t row = begin; row < end; ++row) {
      rows.read(row, features);
      body(static_cast<size_t>(row), std::span<const double>(features));
    }
  });
}

// Linear models --------------------------------------------------------------------------------------

// Scores = X · coefficientsᵀ + intercepts, where the coefficients of each target are contiguous.
class LinearModel {
 public:
  LinearModel(const AttributeSet& attributes, int64_t targets, int64_t features)
      : coefficients_(doubles(attributes, "coefficients")),
        intercepts_(doubles(attributes, "intercepts")),
        targets_(static_cast<size_t>(targets)),
        features_(static_cast<size_t>(features)) {
    if (targets < 1) refuse("a linear model of {} targets", targets);
    if (static_cast<int64_t>(coefficients_.size()) != checked_multiply(targets, features)) {
      refuse("{} coefficients for {} targets of {} features", coefficients_.size(), targets, features);
    }
    if (!intercepts_.empty() && intercepts_.size() != targets_) {
      refuse("{} intercepts for {} targets", intercepts_.size(), targets);
    }
  }

  double score(size_t target, std::span<const double> features) const {
    const double product = dot(features, std::span(coefficients_).subspan(target * features_, features_));
    return intercepts_.empty() ? product : product + intercepts_[target];
  }
  void set_scores(std::span<const double> features, std::span<double> scores) const {
    for (size_t i = 0; i < targets_; ++i) scores[i] = score(i, features);
  }

 private:
  ScratchVector<double> coefficients_, intercepts_;
  size_t targets_, features_;
};

void linear_regressor(KernelContext& context) {
  const AttributeSet& attributes = context.attributes();
  const FeatureRows rows(context.input(0));
  const int64_t targets = attributes.get_int("targets", 1);
  const LinearModel model(attributes, targets, rows.features());
  const PostTransform transform = post_transform(attributes.string("post_transform", "NONE"));
  const ScoreTable table(context, rows.rows(), static_cast<size_t>(targets));
  for_each_instance(rows, checked_multiply(targets, rows.features()),
                    [&](size_t row, std::span<const double> features) {
                      model.set_scores(features, table.row(row));
                      transform_scores(transform, table.row(row));
                    });
  table.write(context, 0);
}

// Of two classes the model may give the score of the second only: positive where that is the likelier one.
void linear_classifier(KernelContext& context) {
  const AttributeSet& attributes = context.attributes();
  const FeatureRows rows(context.input(0));
  const ClassLabels labels(attributes, "classlabels_ints", "classlabels_strings");
  const auto given = std::ssize(attributes.floats("coefficients"));
  const int64_t targets = rows.features() > 0 ? given / rows.features() : std::ssize(attributes.floats("intercepts"));
  const LinearModel model(attributes, targets, rows.features());
  const bool binary = targets == 1;
  const size_t width = binary ? 2 : static_cast<size_t>(targets);
  if (labels.of_strings() && labels.size() != width) refuse("{} labels for {} classes", labels.size(), width);
  const PostTransform transform = post_transform(attributes.string("post_transform", "NONE"));
  const ScoreTable table(context, rows.rows(), width);
  const auto classes = context.workspace_of<int64_t>(static_cast<size_t>(rows.rows()));
  for_each_instance(rows, given, [&](size_t row, std::span<const double> features) {
    const std::span<double> scores = table.row(row);
    if (binary) {
      const double score = model.score(0, features);
      classes[row] = score > 0;
      set_binary_scores(transform, score, true, scores);
    } else {
      model.set_scores(features, scores);
      classes[row] = static_cast<int64_t>(index_of_maximum(scores));
      transform_scores(transform, scores);
    }
  });
  labels.write(context, classes);
  table.write(context, 1);
}

// Support vector machines ----------------------------------------------------------------------------

class SupportKernel {
 public:
  explicit SupportKernel(const AttributeSet& attributes) : type_(attributes.string("kernel_type", "LINEAR")) {
    const ScratchVector<double> parameters = doubles(attributes, "kernel_params");
    if (!parameters.empty() && parameters.size() != 3)
      refuse("kernel_params has {} elements, not 3", parameters.size());
    if (!parameters.empty()) gamma_ = parameters[0], offset_ = parameters[1], degree_ = parameters[2];
    constexpr std::string_view kTypes[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};
    if (std::ranges::find(kTypes, type_) == std::end(kTypes)) refuse("'{}' is no kernel_type", type_);
  }

  double operator()(std::span<const double> x, std::span<const double> y) const {
    if (type_ == "LINEAR") return dot(x, y);
    if (type_ == "POLY") return std::pow(gamma_ * dot(x, y) + offset_, degree_);
    if (type_ == "SIGMOID") return std::tanh(gamma_ * dot(x, y) + offset_);
    double squares = 0;
    for (size_t i = 0; i < x.size(); ++i) squares += (x[i] - y[i]) * (x[i] - y[i]);
    return std::exp(-gamma_ * squares);
  }

 private:
  std::string_view type_;
  double gamma_ = 0, offset_ = 0, degree_ = 0;
};

// What both machines have: support vectors, or without them, whatever the kernel, a linear model.
struct SupportMachine {
  SupportMachine(const AttributeSet& attributes, int64_t features, int64_t support_count)
      : kernel(attributes),
        vectors(doubles(attributes, "support_vectors")),
        coefficients(doubles(attributes, "coefficients")),
        rho(doubles(attributes, "rho")),
        features(static_cast<size_t>(features)),
        count(static_cast<size_t>(support_count)) {
    if (support_count < 0 || static_cast<int64_t>(vectors.size()) != checked_multiply(support_count, features)) {
      refuse("{} numbers for {} support vectors of {} features", vectors.size(), support_count, features);
    }
    if (rho.empty()) refuse("rho is empty");
  }

  // The kernel of x with each support vector.
  ScratchVector<double> similarities(std::span<const double> x) const {
    ScratchVector<double> result(count);
    for (size_t i = 0; i < count; ++i) result[i] = kernel(x, std::span(vectors).subspan(i * features, features));
    return result;
  }

  SupportKernel kernel;
  ScratchVector<double> vectors, coefficients, rho;
  size_t features, count;
};

void svm_regressor(KernelContext& context) {
  const AttributeSet& attributes = context.attributes();
  const FeatureRows rows(context.input(0));
  const SupportMachine machine(attributes, rows.features(), attributes.get_int("n_supports", 0));
  const size_t wanted = machine.count > 0 ? machine.count : machine.features;
  if (machine.coefficients.size() != wanted)
    refuse("{} coefficients instead of {}", machine.coefficients.size(), wanted);
  const bool one_class = attributes.get_int("one_class", 0) != 0;
  const PostTransform transform = post_transform(attributes.string("post_transform", "NONE"));
  const ScoreTable table(context, rows.rows(), 1);
  for_each_instance(rows, std::ssize(machine.vectors), [&](size_t row, std::span<const double> x) {
    double score = machine.rho[0] + (machine.count > 0 ? dot(machine.similarities(x), machine.coefficients)
                                                       : dot(x, machine.coefficients));
    if (one_class) score = score > 0 ? 1 : -1;
    table.row(row)[0] = score;
    transform_scores(transform, table.row(row));
  });
  table.write(context, 0);
}

// Probabilities of k classes from those of all pairs, p(i, j) of class i against j: the minimum of
// Σ_{i≠j} (p(j, i) x_i - p(i, j) x_j)² over x ≥ 0, Σ x = 1, by the iteration of Wu, Lin and Weng, "Probability Estimates
// for Multi-class Classification by Pairwise Coupling" (2004), algorithm 2.
ScratchVector<double> couple(size_t k, std::span<const double> p) {
  ScratchVector<double> q(k * k), x(k, 1.0 / static_cast<double>(k)), qx(k);
  for (size_t i = 0; i < k; ++i) {
    for (size_t j = 0; j < k; ++j) {
      if (i == j) continue;
      q[i * k + i] += p[j * k + i] * p[j * k + i];
      q[i * k + j] = -p[j * k + i] * p[i * k + j];
    }
  }
  const int most_rounds = static_cast<int>(std::max<size_t>(100, k));
  const double tolerance = 0.005 / static_cast<double>(k);
  for (int round = 0; round < most_rounds; ++round) {
    double xqx = 0;
    for (size_t i = 0; i < k; ++i) {
      qx[i] = dot(std::span(q).subspan(i * k, k), x);
      xqx += x[i] * qx[i];
    }
    double error = 0;
    for (double v : qx) error = std::max(error, std::abs(v - xqx));
    if (error < tolerance) break;
    for (size_t i = 0; i < k; ++i) {
      const double change = (xqx - qx[i]) / q[i * k + i];
      x[i] += change;
      xqx = (xqx + change * (change * q[i * k + i] + 2 * qx[i])) / (1 + change) / (1 + change);
      for (size_t j = 0; j < k; ++j) {
        qx[j] = (qx[j] + change * q[i * k + j]) / (1 + change);
        x[j] /= 1 + change;
      }
    }
  }
  return x;
}

// One machine for each pair of classes (i, j), i < j; its score is positive for i. Each pair votes for a class. With
// prob_a and prob_b the scores become probabilities of the classes.
class PairwiseClassifier {
 public:
  PairwiseClassifier(const AttributeSet& attributes, const SupportMachine& machine, std::span<const int64_t> supports)
      : machine_(machine),
        supports_(supports),
        classes_(supports_.size()),
        prob_a_(doubles(attributes, "prob_a")),
        prob_b_(doubles(attributes, "prob_b")) {
    const size_t pairs = classes_ * (classes_ - 1) / 2;
    if (machine.rho.size() != pairs) refuse("rho has {} elements for {} pairs of classes", machine.rho.size(), pairs);
    if (machine.coefficients.size() != (classes_ - 1) * machine.count) {
      refuse("{} coefficients for {} classes and {} support vectors", machine.coefficients.size(), classes_,
             machine.count);
    }
    if (prob_a_.size() != prob_b_.size() || (!prob_a_.empty() && prob_a_.size() != pairs)) {
      refuse("prob_a has {} elements, prob_b {}, for {} pairs of classes", prob_a_.size(), prob_b_.size(), pairs);
    }
    size_t first = 0;
    for (int64_t count : supports_) {
      first_.push_back(first);
      first += static_cast<size_t>(count);
    }
  }

  bool gives_probabilities() const { return !prob_a_.empty(); }

  struct Result {
    size_t winner;
    ScratchVector<double> scores;  // of the classes when they are probabilities, else of the pairs
  };
  Result classify(std::span<const double> x) const {
    const ScratchVector<double> similarities = machine_.similarities(x);
    ScratchVector<double> scores, votes(classes_);
    for (size_t i = 0; i < classes_; ++i) {
      for (size_t j = i + 1; j < classes_; ++j) {
        // Row j - 1 of the coefficients holds those of class i against j, row i those of class j against i.
        const double score =
            machine_.rho[scores.size()] + contribution(similarities, i, j - 1) + contribution(similarities, j, i);
        ++votes[score > 0 ? i : j];
        scores.push_back(score);
      }
    }
    const size_t winner = index_of_maximum(votes);
    return {winner, gives_probabilities() ? probabilities(scores) : scores};
  }

 private:
  double contribution(std::span<const double> similarities, size_t of_class, size_t row) const {
    const auto count = static_cast<size_t>(supports_[of_class]);
    return dot(std::span(similarities).subspan(first_[of_class], count),
               std::span(machine_.coefficients).subspan(row * machine_.count + first_[of_class], count));
  }

  ScratchVector<double> probabilities(std::span<const double> scores) const {
    constexpr double kLeast = 1e-7;
    ScratchVector<double> p(classes_ * classes_);
    size_t pair = 0;
    for (size_t i = 0; i < classes_; ++i) {
      for (size_t j = i + 1; j < classes_; ++j, ++pair) {
        const double of_i = std::clamp(logistic(-(scores[pair] * prob_a_[pair] + prob_b_[pair])), kLeast, 1 - kLeast);
        p[i * classes_ + j] = of_i;
        p[j * classes_ + i] = 1 - of_i;
      }
    }
    return couple(classes_, p);
  }

  const SupportMachine& machine_;
  std::span<const int64_t> supports_;  // of each class
  size_t classes_;
  ScratchVector<double> prob_a_, prob_b_;
  ScratchVector<size_t> first_;
};

void svm_classifier(KernelContext& context) {
  const AttributeSet& attributes = context.attributes();
  const FeatureRows rows(context.input(0));
  const ClassLabels labels(attributes, "classlabels_ints", "classlabels_strings");
  const PostTransform transform = post_transform(attributes.string("post_transform", "NONE"));
  const std::span<const int64_t> supports = attributes.ints("vectors_per_class");
  int64_t support_count = 0;
  for (int64_t count : supports) {
    if (count < 0) refuse("a class of {} support vectors", count);
    support_count = checked_add(support_count, count);
  }
  const SupportMachine machine(attributes, rows.features(), support_count);
  const auto classes = context.workspace_of<int64_t>(static_cast<size_t>(rows.rows()));
  std::optional<ScoreTable> table;
  if (support_count > 0) {
    if (supports.size() < 2) refuse("a classifier of one class");
    if (labels.of_strings() && labels.size() < supports.size()) {
      refuse("{} labels for {} classes", labels.size(), supports.size());
    }
    const PairwiseClassifier classifier(attributes, machine, supports);
    const bool binary = supports.size() == 2 && !classifier.gives_probabilities();
    table.emplace(context, rows.rows(),
                  binary || classifier.gives_probabilities() ? supports.size() : machine.rho.size());
    for_each_instance(rows, std::ssize(machine.vectors), [&](size_t row, std::span<const double> x) {
      auto [winner, scores] = classifier.classify(x);
      classes[row] = static_cast<int64_t>(winner);
      if (binary) {
        set_binary_scores(transform, scores[0], transform != PostTransform::None, table->row(row));
      } else {
        transform_scores(transform, scores);
        std::ranges::copy(scores, table->row(row).begin());
      }
    });
  } else {
    // One vector of coefficients for each class.
    const size_t width = labels.size();
    if (width == 0 || machine.coefficients.size() != width * machine.features) {
      refuse("{} coefficients for {} classes of {} features", machine.coefficients.size(), width, machine.features);
    }
    table.emplace(context, rows.rows(), width);
    for_each_instance(rows, std::ssize(machine.coefficients), [&](size_t row, std::span<const double> x) {
      const std::span<double> scores = table->row(row);
      for (size_t i = 0; i < width; ++i) {
        scores[i] =
            machine.rho[0] + dot(x, std::span(machine.coefficients).subspan(i * machine.features, machine.features));
      }
      classes[row] = static_cast<int64_t>(index_of_maximum(scores));
      transform_scores(transform, scores);
    });
  }
  labels.write(context, classes);
  table->write(context, 1);
}

}  // namespace

void register_ml_models(KernelRegistry& registry) {
  registry.add("ai.onnx.ml::LinearClassifier", linear_classifier);
  registry.add("ai.onnx.ml::LinearRegressor", linear_regressor);
  registry.add("ai.onnx.ml::SVMClassifier", svm_classifier);
  registry.add("ai.onnx.ml::SVMRegressor", svm_regressor);
}

}  // namespace anfora::kernels
