// What a machine can do at most, by the roofline model (Williams, Waterman, Patterson: "Roofline: An Insightful Visual Performance Model for
// Multicore Architectures", 2009): the time of a kernel has two lower bounds, that of its operations and that of its bytes.
#pragma once

#include <vector>

namespace anfora::kernels {

// Of one machine, instruction set and number of threads.
struct Roofline {
  struct Reading {
    double bytes = 0;             // of the working set, of all threads together
    double bytes_per_second = 0;  // of reading it again and again
  };
  double flops_per_second = 0;    // multiplications and additions of f32
  std::vector<Reading> readings;  // by size of the working set, the smallest first

  bool is_known() const { return flops_per_second > 0 && !readings.empty(); }
  // Of the largest working set that is not larger than `bytes`: such a one is read at least as fast.
  double bytes_per_second(double bytes) const;
  // The longer one of both lower bounds.
  double least_seconds(double flops, double bytes) const;
};

}  // namespace anfora::kernels
