// Sizes that depend on the shapes of the inputs: an integer expression over numbered symbols, as a postfix program.
// This is what is left of the compiler's symbolic dimensions at run time.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace anfora::runtime {

// The value of a symbol that has none in a run.
inline constexpr int64_t kUnbound = std::numeric_limits<int64_t>::min();

class SizeExpression {
 public:
  enum class Code : uint8_t { Constant, Symbol, Add, Multiply, FloorDivide, CeilDivide, Modulo, Minimum, Maximum };

  SizeExpression() = default;  // unknown: evaluates to nothing
  explicit SizeExpression(int64_t constant) { push(Code::Constant, constant); }

  struct Step {
    Code code;
    int64_t operand;
  };
  const std::vector<Step>& steps() const { return steps_; }

  // Appends a step; a binary operation takes the two results before it. `operand` is the constant or the symbol's number.
  void push(Code code, int64_t operand = 0) { steps_.push_back({code, operand}); }
  void append(const SizeExpression& other) { steps_.insert(steps_.end(), other.steps_.begin(), other.steps_.end()); }

  bool is_unknown() const { return steps_.empty(); }
  bool mentions(size_t symbol) const;
  bool is_constant() const { return steps_.size() == 1 && steps_[0].code == Code::Constant; }

  // Empty when the expression is unknown, a symbol is unbound, a divisor is zero, or the value overflows.
  std::optional<int64_t> evaluate(std::span<const int64_t> symbols) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace anfora::runtime
