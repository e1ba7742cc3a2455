// Which arguments functions keep. A value may lie in the caller's arena while a function reads it, unless the function returns
// it or puts it where it can be found afterwards: in a result, a tuple, a sequence, a closure, or an argument of a function that
// keeps it. A view on an argument keeps what the argument keeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/draft.h"

namespace anfora::plan {

class RetainedArguments {
 public:
  // A fixpoint over the functions of a program, by index; linear in their steps for each round, of which recursion needs a few.
  explicit RetainedArguments(std::span<const Draft> drafts);

  // Whether operand i of a step of the draft may be found, or its memory, when the step is over.
  bool keeps_operand(const Draft& draft, const Step& step, size_t i) const;

 private:
  // Also where a call gives more arguments than there are, which the machine refuses.
  bool is_kept(uint32_t function, size_t argument) const {
    return argument >= kept_[function].size() || kept_[function][argument];
  }
  bool update(const Draft& draft, std::vector<bool>& kept) const;

  std::vector<std::vector<bool>> kept_;  // by function and argument
};

}  // namespace anfora::plan
