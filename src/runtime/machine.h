// The machine that executes a program.
//
// Calls do not use the C++ stack. A frame is a function's slots, its arena and what is prepared once for all its
// invocations (the operands as pointers, the planned memory of each kernel output); frames are pooled by function, so
// that neither an instruction nor a call allocates in the steady state.
//
//     main ─▶ f ─▶ g        frames_: a stack with a bound, since recursion in a model may be endless
//
// A tail call gives the caller's frame back before the callee starts: a loop, which is a tail-recursive function, runs
// in constant space. Memory stays valid by one rule, which the plan follows: what leaves a frame (arguments, captured
// values, results, elements of sequences) never lies in an arena, but in a block of the pool that handles keep alive.
//
// State of a loop that has the same size in each iteration is the exception: two places in the frame of the function that computes it
// take turns, with handles that tell which of them is free.
//
// What kernels need while they run lies in the arena too. Some know how much beforehand; of the others, the first run with
// these sizes shows it, in blocks of the pool, and the arena is laid out again.
#pragma once

#include <memory>
#include <random>
#include <span>
#include <unordered_map>
#include <vector>

#include "anfora/error.h"
#include "runtime/profiler.h"
#include "runtime/program.h"

namespace anfora::runtime {

// More nested calls than this are taken for endless recursion.
inline constexpr size_t kDeepestCalls = 10'000;

class Machine {
 public:
  explicit Machine(const Program& program);
  ~Machine();

  struct Options {
    std::mt19937_64* random = nullptr;
    Profiler* profiler = nullptr;
    size_t deepest_calls = kDeepestCalls;
  };
  // One run of the main function. Result i is written to the memory of given[i], when that is a tensor, where a kernel of the main
  // function computes it and it has as many bytes. After an error the machine is as before the run.
  void run(std::span<const Datum* const> arguments, std::span<const Datum> given, std::span<Datum> results,
           const Options& options);

  // The memory of as many results as were given away since the last call serves again when nobody has them any more.
  void results_were_given() { workspace_.blocks().end_giving(); }

  // Of the blocks that lie in no arena.
  size_t block_bytes() const { return workspace_.blocks().bytes(); }
  // The layout of a function's arena under the symbols of its latest run; null when it never ran.
  const MemoryLayout* latest_layout(uint32_t function) const;

 private:
  struct Frame;
  struct SizedLayout;
  struct FunctionState;

  void execute(std::span<Datum> results, const Options& options);
  void return_values(Frame& frame, const Instruction& instruction, std::span<Datum> results);
  std::unique_ptr<Frame> acquire(uint32_t function);
  void release(std::unique_ptr<Frame> frame);
  void enter(std::unique_ptr<Frame> frame, const Options& options);
  void start(Frame& frame);
  void unwind();
  Error& locate(Error& error) const;

  std::shared_ptr<SizedLayout> lay_out(const Function& function, const SizedLayout* outgrown);
  void run_kernel(Frame& frame, const Instruction& instruction, const Options& options);
  void call(const Instruction& instruction, uint32_t function, std::span<const Operand> operands, const bool* last_uses,
            std::span<const Datum> captures, const Options& options);

  const Program& program_;
  bool has_loops_ = false;  // some function has carried values
  kernels::Workspace workspace_;  // outlives all values
  std::vector<std::unique_ptr<kernels::PreparedKernel::State>> states_;  // by kernel
  std::vector<FunctionState> functions_;
  std::vector<std::unique_ptr<Frame>> frames_;
  std::vector<int64_t> main_symbols_;
  std::vector<int64_t> symbols_;  // scratch of start()
  std::vector<Datum> arguments_;  // scratch of call()
};

}  // namespace anfora::runtime
