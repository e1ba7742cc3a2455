#include "runtime/size_expression.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>

namespace anfora::runtime {
namespace {

using Code = SizeExpression::Code;

std::optional<int64_t> apply(Code code, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (code) {
    case Code::Add: return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case Code::Multiply: return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case Code::Minimum: return std::min(a, b);
    case Code::Maximum: return std::max(a, b);
    default: break;
  }
  // −1 is left out because the quotient of the smallest integer overflows; sizes have no negative divisors.
  if (b == 0 || b == -1) return std::nullopt;
  int64_t quotient = a / b, remainder = a % b;
  bool rounded_up = remainder != 0 && ((remainder < 0) != (b < 0));  // a / b rounds toward zero
  switch (code) {
    case Code::FloorDivide: return quotient - (rounded_up ? 1 : 0);
    case Code::CeilDivide: return quotient + (remainder != 0 && !rounded_up ? 1 : 0);
    default: return remainder + (rounded_up ? b : 0);
  }
}

}  // namespace

bool SizeExpression::mentions(size_t symbol) const {
  return std::ranges::any_of(steps_, [&](const Step& step) {
    return step.code == Code::Symbol && step.operand == static_cast<int64_t>(symbol);
  });
}

std::optional<int64_t> SizeExpression::evaluate(std::span<const int64_t> symbols) const {
  boost::container::small_vector<int64_t, 8> stack;
  for (const Step& step : steps_) {
    if (step.code == Code::Constant) {
      stack.push_back(step.operand);
    } else if (step.code == Code::Symbol) {
      int64_t value = symbols[static_cast<size_t>(step.operand)];
      if (value == kUnbound) return std::nullopt;
      stack.push_back(value);
    } else {
      int64_t b = stack.back();
      stack.pop_back();
      std::optional<int64_t> result = apply(step.code, stack.back(), b);
      if (!result) return std::nullopt;
      stack.back() = *result;
    }
  }
  return stack.empty() ? std::nullopt : std::optional(stack.back());
}

}  // namespace anfora::runtime
