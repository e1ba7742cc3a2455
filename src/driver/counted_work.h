// What calls of kernels have to do, and how fast this machine could: for profiles.
#pragma once

#include <functional>
#include <string>

#include "runtime/profiler.h"

namespace anfora::driver {

// Counts by the declarations of the operators and the shapes of the run, so that symbolic sizes, loops and compiled models are no
// special case. The operations are those of the definition, though a kernel may take fewer (Winograd's convolutions). The bytes are
// those of all operands in memory, each once, packed weights as they are packed; views read nothing, and what takes elements of operand 0
// (Gather, Slice) no more of it than it gives. Operators without a declaration take an unknown number of operations.
runtime::CountWork count_work();

// Of this processor, its instruction set and that many threads (0: one a CPU). Measured in 0.2 s when it is asked for the first five times, of which the best is kept in
// cache_folder(), unless other processes disturbed it, of which `warn` is told. A file that cannot be written is no error; `warn` is told, too.
kernels::Roofline roofline_of_machine(int threads, const std::function<void(const std::string&)>& warn);

}  // namespace anfora::driver
