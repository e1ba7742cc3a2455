// Where the values of a function live, decided before the run.
//
// Views (Reshape, Squeeze, …) share the memory of their input; a value with its views is a *class*, and the class is
// what needs memory, from its first write to the last read of any member. Three places:
//
//   outside    the memory of an argument or a constant, with the views on it; results in the memory of arguments that the caller gives
//              away (plan/donation.h)
//   arena      a buffer at a planned offset of the function's arena, for classes that end with the function: what reads them
//              keeps no handle, as kernels whose outputs are tensors, and functions that it calls (plan/retention.h)
//   carried    a place of the loop's frame, for what a function that is a part of a loop passes on to the next iteration, if its size
//              is the same in all of them: two places that take turns, or one where the operator is declared in-place
//   block      everything else: what is passed to a tail call or kept by a call, captured, put into a tuple or a sequence, returned, or has no
//              size before it is computed. It has a block of its own (support/block_pool.h), which the last handle gives
//              back. A result of the main function is written to the caller's memory, where the caller gives some.
//
// A part of a Concat, and a slice of the last axis, may lie in the buffer of the whole (plan/slices.h).
//
// An operator declared in-place may write over an input's buffer that dies there; the result then continues the
// buffer. For a block the same is decided at run time, by whether the input's handle is the only one.
#pragma once

#include <vector>

#include "analysis/calls.h"
#include "plan/donation.h"
#include "plan/draft.h"
#include "plan/retention.h"
#include "plan/sizes.h"

namespace anfora::plan {

// Where a value lies in the buffer of another (plan/slices.h), in bytes: its first row, and how long rows are and how far apart.
struct Slice {
  static constexpr Value kNone = UINT32_MAX;
  Value whole = kNone;
  int64_t offset = 0, row_bytes = 0, distance = 0;
};

struct MemoryPlan {
  std::vector<runtime::Buffer> buffers;
  std::vector<uint32_t> buffer_of;  // by value: Function::kNoBuffer, kSharesInput or a buffer
  std::vector<Slice> slices;         // by value, whose buffer is the whole's; empty where there are none
  std::vector<runtime::CarriedValue> carried;
  std::vector<uint32_t> carried_of;  // by value: Function::kNoBuffer, or which one it is
  // By result of the function: the value whose memory is the result's and no other's, which a kernel writes; else kNoValue.
  static constexpr Value kNoValue = UINT32_MAX;
  std::vector<Value> written_results;
  // Values in the memory of arguments, and by result the argument whose memory it has, or kNoValue; empty where there are none.
  struct Donated {
    Value value, argument;
  };
  std::vector<Donated> donated;
  std::vector<Value> result_arguments;
  // By step: operands whose memory output 0 may take over when nobody else holds it.
  std::vector<std::vector<uint8_t>> reusable;
};

MemoryPlan plan_memory(const Draft& draft, FunctionSymbols& symbols, const analysis::CallOrder& calls,
                       const RetainedArguments& retained, const Donation& donation, const runtime::Program& program);

}  // namespace anfora::plan
