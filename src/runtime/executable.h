// A compiled model, ready to run.
//
//     Executable model = plan::compile(module);
//     std::vector<Datum> outputs = model.run({{"x", tensor}});
//     model.run(inputs, outputs);    // once more, into the same memory: nothing is allocated
//
// Inputs may be given by name or by position. Outputs are the caller's: no run overwrites them unasked. Inputs are not written to, but for
// those that are donated, whose memory outputs may have. Any number of threads may
// call run() at once: the program is constant, and each run has a machine to itself, which later runs use again. Kernels use
// a pool of threads inside.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/machine.h"
#include "runtime/profiler.h"
#include "runtime/program.h"
#include "runtime/signature.h"

namespace anfora::runtime {

struct RunOptions {
  int threads = 0;               // 0: as the executable was compiled for
  Profiler* profiler = nullptr;  // must not outlive the executable; of one run at a time
  std::optional<uint64_t> seed;  // restarts the random state; else it goes on from the run begun last
  size_t deepest_calls = kDeepestCalls;
};

// Memory of one run, for the latest sizes; before the first, only what is static is known. Runs at the same time have as much
// each, but for the constants.
struct MemoryReport {
  bool is_known = false;           // whether the sizes of the main function are
  int64_t arena_bytes = 0;         // intermediate values of the main function, and what its kernels need while they run
  int64_t arena_lower_bound = 0;   // no arena can be smaller
  int64_t callee_arena_bytes = 0;  // one arena of each other function that has run, with what loops carry
  int64_t block_bytes = 0;         // of values that have no place in an arena
  int64_t constant_bytes = 0;      // that kernels read as they are, mostly memory-mapped
  size_t donated_results = 0;      // results that lie in the memory of inputs
  size_t unplanned_values = 0;     // tensors of the main function that kernels allocate themselves
};

class Executable {
 public:
  Executable(std::unique_ptr<Program> program, Signature signature, int threads);
  Executable(Executable&&) noexcept;
  Executable& operator=(Executable&&) noexcept;
  ~Executable();

  std::span<const ValueSpec> inputs() const;
  std::span<const ValueSpec> outputs() const;
  // The donated input in whose memory an output lies, unless the caller gives some for it.
  std::optional<size_t> donated_input(size_t output) const;
  const Program& program() const { return *program_; }
  const Signature& signature() const { return signature_; }
  int threads() const { return threads_; }  // that it was compiled for; 0: one a CPU

  // By position; None for an input that may be left out. An output that is a tensor has the memory to write to, which must be of
  // the right type and shape and may not be an input's; other outputs are replaced. Throws InvalidArgument for what does not fit,
  // and what kernels throw, with node and location.
  void run(std::span<const Datum> inputs, std::span<Datum> outputs, const RunOptions& options = {}) const;
  std::vector<Datum> run(std::vector<Datum> inputs, const RunOptions& options = {}) const;
  std::vector<Datum> run(NamedData inputs, const RunOptions& options = {}) const;

  // Inputs by name as run() takes them by position. Throws InvalidArgument when a name is unknown or given twice.
  std::vector<Datum> in_order(NamedData inputs) const;

  MemoryReport memory() const;
  // Applications of operators that have no kernel: "com.microsoft::FusedConv 'node'".
  std::vector<std::string> missing_kernels() const;

 private:
  struct Runner;
  class Runners;
  struct RandomState;

  std::unique_ptr<Program> program_;
  Signature signature_;
  std::unique_ptr<Runners> runners_;
  std::unique_ptr<RandomState> random_;
  std::optional<Error> missing_kernel_;  // that every run needs
  int threads_;
};

}  // namespace anfora::runtime
