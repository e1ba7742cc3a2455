// Measures the rates of this machine with generated code, of the best instruction set, on the threads of the caller.
#pragma once

#include <functional>

#include "kernels/roofline.h"

namespace anfora::codegen {

// Something to time.
struct RateLoop {
  int threads;
  std::function<void(int64_t thread)> part;  // of one thread
  double amount;                             // of what all parts do: operations, or bytes

  void run() const;
};

// Fused multiply-adds of registers, in chains that do not wait for each other.
RateLoop multiply_adds();
// Loads of a working set of about as many bytes, of which each thread has its own part, several times over.
RateLoop reads(double bytes);

struct MeasuredRoofline {
  kernels::Roofline roofline;
  bool all_ran_at_once = true;  // false: other processes kept threads from running together, and the rates are too low
};
// Takes 0.2 s, of which half is for memory to be had.
MeasuredRoofline measure_roofline();

}  // namespace anfora::codegen
