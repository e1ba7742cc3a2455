// Results in the memory of arguments: the caller gives some away (ir::Parameter::is_donated), and gets results in them.
//
//     graph @main(%p: f32[N] donated, %g: f32[N]) {        %t = Mul(%g, 0.1)      in the arena
//       return Sub(%p, Mul(%g, 0.1))                       %r = Sub(%p, %t)       in the memory of %p, which dies there
//     }
//
// A result may lie in an argument's memory if it has as many bytes (where only the run tells, and it has not, the kernel allocates), a kernel writes it, and nobody reads the argument afterwards:
// the kernel itself may, where its operator is declared in-place. Where a result comes of an argument by such operators alone
// (0.9 * m + 0.1 * g), the values between lie there as well. Results are matched with what they come of first, then with what is left,
// both in order. XLA calls this input-output aliasing. What a function returns, a loop for instance, is moved there when the run ends.
#pragma once

#include <vector>

#include "plan/draft.h"

namespace anfora::plan {

struct Donation {
  static constexpr Value kNone = UINT32_MAX;
  // By value that a kernel writes: the argument in whose memory it lies, or kNone.
  std::vector<Value> memory_of;
  // By result: the argument in whose memory it lies or ends, or which it is; or kNone. Empty where none is given away.
  std::vector<Value> result_of;
};

class RetainedArguments;

// Of the main function.
Donation plan_donation(const Draft& draft, const RetainedArguments& retained);

// The operands of a kernel's step whose memory its first result may take over, where nobody else reads it: those that the operator
// declares; of a group, those of the result's shape, which it reads where it writes.
std::vector<int> in_place_operands(const Step& step);

// Whether the step overwrites the memory of operand i only where it has read it. The same memory as another operand may be read in
// another order: through a view, or by an operator that does not go element by element. `viewed`: see Draft::viewed().
bool may_overwrite(const Step& step, size_t i, const std::vector<Value>& viewed);

}  // namespace anfora::plan
