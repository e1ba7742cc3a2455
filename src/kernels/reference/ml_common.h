// What the models of ai.onnx.ml share: rows of features, class labels, and the transforms of scores.
#pragma once

#include <span>
#include <string>

#include "kernels/kernel.h"
#include "support/element_types.h"

namespace anfora::kernels {

// The element types that ai.onnx.ml allows for features.
using FeatureTypes = TypeList<float, double, int32_t, int64_t, Float16>;

// A tensor as rows of features: [N, F], or [F] for one row. Arithmetic on features happens in double.
class FeatureRows {
 public:
  explicit FeatureRows(const Tensor& tensor);
  int64_t rows() const { return rows_; }
  int64_t features() const { return features_; }
  // The features of a row; `to` has features() elements.
  void read(int64_t row, std::span<double> to) const;

 private:
  const Tensor& tensor_;
  int64_t rows_ = 1, features_ = 0;
};

enum class PostTransform { None, Softmax, Logistic, SoftmaxZero, Probit };

// By name, as in most operators, or by number, as in TreeEnsemble.
PostTransform post_transform(std::string_view name);
PostTransform post_transform(int64_t number);

double logistic(double x);
// A single score is transformed by PROBIT only: the specification leaves open what the transforms of several scores make
// of one, and this is what converters rely on.
void transform_scores(PostTransform transform, std::span<double> scores);

// The two scores of a binary model that computes only one: LOGISTIC's of -s and s, else 1 - s and s of a probability
// (`complement`), -s and s of a signed score.
void set_binary_scores(PostTransform transform, double score, bool complement, std::span<double> scores);

size_t index_of_maximum(std::span<const double> scores);

// The labels of a classifier, integers or strings, and its first output. The attributes outlive it.
class ClassLabels {
 public:
  ClassLabels(const AttributeSet& attributes, const char* integers, const char* strings);
  size_t size() const { return of_strings() ? strings_.size() : integers_.size(); }
  bool of_strings() const { return !strings_.empty(); }
  // Output 0 from the index of the class of each row. Without labels enough, an index stands for itself.
  void write(KernelContext& context, std::span<const int64_t> classes) const;

 private:
  std::span<const int64_t> integers_;
  std::span<const std::string> strings_;
};

// Scores of all rows, in the workspace.
class ScoreTable {
 public:
  ScoreTable(KernelContext& context, int64_t rows, size_t width)
      : width_(width), scores_(context.workspace_of<double>(static_cast<size_t>(rows) * width)) {}
  std::span<double> row(size_t i) const { return scores_.subspan(i * width_, width_); }
  // As f32 to that output, where it is wanted.
  void write(KernelContext& context, size_t output) const;

 private:
  size_t width_;
  std::span<double> scores_;
};

}  // namespace anfora::kernels
