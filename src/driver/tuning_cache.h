// Which kernels were measured to be the fastest, kept on disk for later compilations.
//
// One file a processor, instruction set, number of threads and version of Anfora, so that nobody reads what holds elsewhere. It is JSON, an
// object a line: the first says what the file is for, each of the others is one kind of kernel.
//
//     {"anfora tuning":1,"for":"anfora 0.1.0, avx512_core_vnni, AMD EPYC, 1 thread"}
//     {"kernel":"LoweredMatMul(f32[128x768], const f32[768x3072]) activation=Gelu","taken":"generated:product",
//      "expected":"onednn:matmul","among":["generated:product","onednn:matmul","onednn:convolution","onednn:inner_product"],
//      "milliseconds":{"generated:product":3.9,"onednn:matmul":4.6},"tune":"fast"}                                   (in one line)
//
// A file is read and replaced as a whole: of two processes that write at the same time, one loses what it has measured, no more.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/prepared.h"

namespace anfora::driver {

// --tune: how much is measured.
enum class Tune : uint8_t {
  Off,   // nothing: kernels are chosen by the cost model
  Fast,  // the two implementations of each kernel that are expected to be the fastest
  Full,  // all of them, more often
};
std::string_view name_of(Tune tune);
Tune tune_named(std::string_view name);  // throws InvalidArgument

// What was found out about one kind of kernel.
struct TunedKernel {
  std::string taken, expected;                // implementations: the one to take, and the cost model's
  std::vector<std::string> among;              // all there were for the operator
  std::map<std::string, double> milliseconds;  // of a run, by those that were measured
  Tune tune = Tune::Fast;                      // how much that was
};
using TunedKernels = std::map<std::string, TunedKernel, std::less<>>;  // by kind

// The kind of a kernel: all that its time depends on. Kernels of the same kind take the same implementation:
// "LoweredMatMul(f32[128x768], const f32[768x3072]) activation=Gelu".
std::string kind_of(const kernels::KernelData& data);

// What measurements of generated code hold for: its instruction set, this processor, and that many threads (0: one a CPU).
std::string describe_generated_code(int threads);

class TuningCache {
 public:
  // For this processor and that many threads (0: one a CPU), in cache_folder().
  explicit TuningCache(int threads);
  TuningCache(std::optional<std::filesystem::path> folder, std::string purpose);

  // The file; empty where nothing is kept.
  const std::filesystem::path& path() const { return path_; }
  // What is kept. A file that is damaged counts as empty, of which `warn` is told.
  TunedKernels read(const std::function<void(const std::string&)>& warn) const;
  // Adds to what the file has by then. A file that cannot be written is no error; `warn` is told.
  void add(const TunedKernels& kernels, const std::function<void(const std::string&)>& warn) const;

 private:
  std::string purpose_;  // what the file is for
  std::filesystem::path path_;
};

}  // namespace anfora::driver
