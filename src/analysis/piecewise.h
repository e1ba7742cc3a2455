// Piecewise linear functions of a few values: which are equal, and which expression computes one with the fewest operators.
//
// An expression of numbers and conditions (Add, Min, Where, Less, …) is linear on each cell of an arrangement of hyperplanes, which are
// where one of its comparisons changes. Two expressions are equal when they agree at enough points of each cell:
//
//     max(x, 0) − x  =  |min(x, 0)|        ●──●──●──●──●        the cells of both: x < 0, x = 0, x > 0
//                                               0
//
// So equality is decided and not guessed. The points come of a cylindrical decomposition: the last variable is eliminated by
// intersecting the hyperplanes in pairs, and each point below is lifted to the places that they divide its line into (G. E. Collins,
// 1975; for linear forms, J. Ferrante and C. Rackoff). What is NaN or infinite is a case by itself.
//
// The smallest expression is searched among all of up to kMostFound operators over the leaves and the constants that the cells tell,
// in the order of their size, as superoptimizers do (H. Massalin, 1987). A search takes a few milliseconds; it is remembered, and real
// models repeat themselves.
#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/operator.h"

namespace anfora::analysis {

class PiecewiseExpression {
 public:
  using Op = ir::PiecewiseOp;
  // A leaf, a constant, or an operator applied to earlier steps. The last step is the result.
  struct Step {
    Op op;
    std::array<uint8_t, 3> operands = {};
    bool is_condition = false;
    double number = 0;  // of a constant
    friend bool operator==(const Step&, const Step&) = default;
  };
  // What is known of a number; of a condition, nothing is.
  struct Domain {
    double low, high;  // infinite: it is not bounded
    bool may_be_nan, may_be_infinite;
    bool excludes_low = false;
    friend bool operator==(const Domain&, const Domain&) = default;
  };

  // Leaves come first, and each has a domain.
  std::vector<Domain> domains;
  std::vector<Step> steps;
};

// Searches, each done once.
class SmallestExpressions {
 public:
  static constexpr size_t kMostNumbers = 3;     // leaves that are numbers
  static constexpr size_t kMostConditions = 2;  // leaves that are conditions
  static constexpr int kMostFound = 2;          // operators of a result

  // Constants that an expression may have: sums and products of such lose no digits.
  static bool takes(double constant);
  // An expression of fewer operators than so many that is the same function of the leaves; null: none is known.
  const PiecewiseExpression* smaller(const PiecewiseExpression& expression, int operators);

 private:
  boost::unordered_flat_map<std::string, std::optional<PiecewiseExpression>> known_;
};

}  // namespace anfora::analysis
