// Which of two values is the larger one, whatever the model's inputs are: x ≤ max(x, y), x − 1 ≤ x, tanh(x) ≤ 2.
//
// Ranges tell values apart that do not overlap. Where they do, both values are followed to a common operand, through operators
// that rise or fall and by what bounds them on one side. Rounding never falls where the exact function rises, so that what is shown
// holds for floats as it is; only sums of integers wrap around, and are not followed.
#pragma once

#include "analysis/range.h"

namespace anfora::analysis {

class Ordering {
 public:
  explicit Ordering(RangeAnalysis& ranges) : ranges_(ranges) {}

  // Whether a ≤ b is shown for all elements, broadcast against each other, that are no NaN.
  bool at_most(const ir::Node* a, const ir::Node* b);

 private:
  // Steps to be taken for one question: each goes to operands of one of the two.
  static constexpr int kMostSteps = 16;
  bool below(const ir::Node* a, const ir::Node* b);
  bool below_by_left(const ir::Apply& a, const ir::Node* b);
  bool below_by_right(const ir::Node* a, const ir::Apply& b);
  bool below_by_both(const ir::Apply& a, const ir::Apply& b);
  bool is_at_most(const ir::Node* a, double bound) { return ranges_.range(a).high <= bound; }
  bool is_at_least(const ir::Node* a, double bound) { return ranges_.range(a).low >= bound; }

  RangeAnalysis& ranges_;
  int steps_ = 0;
};

}  // namespace anfora::analysis
